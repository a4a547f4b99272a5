-- What accounts were used for, and messages by task. `accounts.used_at`, there since the first step, is when a run last
-- began with the account.

alter table accounts add column strikes integer not null default 0;
-- The home in whose folder the run lies: supervisors of several homes may share one database.
alter table runs add column home text not null default '';
-- Whether a message stops what the agent is doing.
alter table messages add column interrupts integer not null default 0;

-- Sums over ended runs, kept by the transaction that ends a run: nobody adds up the whole history again.
create table account_totals (
    coder text not null,
    account text not null,
    runs integer not null,
    tokens integer not null,
    cost_usd real not null,
    primary key (coder, account)
) strict, without rowid;
-- With total(), and cut to what store/sql/accounts.py has as the most: agents tell the numbers, and sum() would overflow.
insert into account_totals (coder, account, runs, tokens, cost_usd)
select
    coder, account, count(*),
    cast(min(
        total(max(input_tokens + output_tokens + cache_read_tokens + cache_write_tokens, 0)),
        1152921504606846976.0) as integer),
    min(total(iif(cost_usd between 0 and 1e12, cost_usd, 0)), 1e15)
from runs where ended_at is not null group by coder, account;

create index messages_by_task on messages (task, queued_at, id);
