-- What the cost of a run is based on: reported, computed:<prices> or unknown. Empty for older runs.

alter table fleet.runs add column cost_basis text collate "C" not null default '';

-- The last observed use of each window of an account's quota.
create table fleet.quotas (
    coder text collate "C" not null,
    account text collate "C" not null,
    span text collate "C" not null,
    used_pct double precision,
    resets_at bigint,
    seen_at bigint not null,
    primary key (coder, account, span)
);
