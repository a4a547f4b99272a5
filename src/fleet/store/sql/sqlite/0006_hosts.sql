-- Hosts that share this queue, the remotes of tasks' repositories, and the last events of each run.

alter table tasks add column remote text not null default '';
create index tasks_by_maker on tasks (made_by) where made_by <> '';

create table hosts (
    id text primary key not null,
    name text not null,
    labels text not null,
    slots integer not null,
    agents integer not null,
    load real not null,
    version text not null,
    address text not null,
    seen_at integer not null,
    drained_at integer
) strict;

create table tails (
    run text primary key not null,
    kept_at integer not null,
    text text not null
) strict;
