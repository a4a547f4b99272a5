-- What the cost of a run is based on: reported, computed:<prices> or unknown. Empty for older runs.

alter table runs add column cost_basis text not null default '';

-- The last observed use of each window of an account's quota.
create table quotas (
    coder text not null,
    account text not null,
    span text not null,
    used_pct real,
    resets_at integer,
    seen_at integer not null,
    primary key (coder, account, span)
) strict, without rowid;
