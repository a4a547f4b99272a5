-- What the cost of a run is based on: reported, computed:<prices> or unknown; nothing for the runs before.

alter table fleet.runs add column cost_basis text collate "C" not null default '';

-- How much of each window of an account's quota was used when that was last seen.
create table fleet.quotas (
    coder text collate "C" not null,
    account text collate "C" not null,
    span text collate "C" not null,
    used_pct double precision,
    resets_at bigint,
    seen_at bigint not null,
    primary key (coder, account, span)
);
