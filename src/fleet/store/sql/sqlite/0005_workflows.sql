-- Workflows, the tasks of their stages, and the results of tasks.

create table workflows (
    id text primary key not null,
    name text not null,
    repo text not null,
    plan text not null,
    task_prompt text not null,
    made_at integer not null,
    made_by text not null,
    caller text not null,
    stopped_at integer,
    reason text not null,
    cleaned_at integer
) strict;
create index workflows_by_time on workflows (made_at, id);

-- Stages have their own table, so that starting one does not read the whole plan.
create table stages (
    task text primary key not null,
    workflow text not null,
    number integer not null,
    name text not null,
    spec text not null
) strict;
create unique index stages_of_workflow on stages (workflow, number);

create table results (
    task text primary key not null,
    run text not null,
    made_at integer not null,
    made_by text not null,
    body text not null
) strict;
