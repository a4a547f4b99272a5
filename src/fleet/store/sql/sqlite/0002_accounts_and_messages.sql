-- What accounts were used for, and messages by task. `accounts.used_at`, which exists since the first step, is when a
-- run last began with the account.

alter table accounts add column strikes integer not null default 0;
-- The home whose folder holds the run. Supervisors of several homes may share one database.
alter table runs add column home text not null default '';
-- 1 if a message interrupts the agent.
alter table messages add column interrupts integer not null default 0;

-- Sums over ended runs, updated by the transaction that ends a run, so that the history is not summed again.
create table account_totals (
    coder text not null,
    account text not null,
    runs integer not null,
    tokens integer not null,
    cost_usd real not null,
    primary key (coder, account)
) strict, without rowid;
-- total() and the bounds of store/sql/accounts.py, because agents report the numbers and sum() would overflow.
insert into account_totals (coder, account, runs, tokens, cost_usd)
select
    coder, account, count(*),
    cast(min(
        total(max(input_tokens + output_tokens + cache_read_tokens + cache_write_tokens, 0)),
        1152921504606846976.0) as integer),
    min(total(iif(cost_usd between 0 and 1e12, cost_usd, 0)), 1e15)
from runs where ended_at is not null group by coder, account;

create index messages_by_task on messages (task, queued_at, id);
