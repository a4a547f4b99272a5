-- A separate count for each reason why a task came back. Before, one number held them all, with three digits each.

alter table tasks add column fresh_starts integer not null default 0;
alter table tasks add column losses integer not null default 0;
alter table tasks add column waits integer not null default 0;
alter table tasks add column disproofs integer not null default 0;
alter table tasks add column fakes integer not null default 0;

update tasks set
    fresh_starts = restarts % 1000,
    losses = restarts / 1000 % 1000,
    waits = restarts / 1000000 % 1000,
    disproofs = restarts / 1000000000 % 1000,
    fakes = restarts / 1000000000000
where restarts <> 0;

alter table tasks drop column restarts;
