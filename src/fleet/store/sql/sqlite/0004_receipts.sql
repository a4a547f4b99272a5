-- What fleet itself observed of each run, the rules for a task's work, and which live branches collide.

-- The receipts of one owner form a chain, in the order of their ids. A receipt outlives its task.
create table receipts (
    id integer primary key,
    run text not null unique,
    task text not null,
    owner text not null,
    coder text not null,
    model text not null,
    finding text not null,
    made_at integer not null,
    previous text not null,
    hash text not null,
    body text not null
) strict;
create index receipts_by_task on receipts (task, id);
create index receipts_by_owner on receipts (owner, id);

-- Collisions as last seen. Each check replaces those of a repository.
create table collisions (
    common text not null,
    task text not null,
    other text not null,
    tip text not null,
    other_tip text not null,
    files text not null,
    seen_at integer not null,
    told_at integer,
    primary key (common, task, other)
) strict, without rowid;

alter table tasks add column rules text not null default '';
alter table runs add column spawn text not null default '';
