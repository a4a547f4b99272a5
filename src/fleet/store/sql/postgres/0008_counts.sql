-- A separate count for each reason why a task came back. Before, one number held them all, with three digits each.

alter table fleet.tasks add column fresh_starts bigint not null default 0;
alter table fleet.tasks add column losses bigint not null default 0;
alter table fleet.tasks add column waits bigint not null default 0;
alter table fleet.tasks add column disproofs bigint not null default 0;
alter table fleet.tasks add column fakes bigint not null default 0;

update fleet.tasks set
    fresh_starts = restarts % 1000,
    losses = restarts / 1000 % 1000,
    waits = restarts / 1000000 % 1000,
    disproofs = restarts / 1000000000 % 1000,
    fakes = restarts / 1000000000000
where restarts <> 0;

alter table fleet.tasks drop column restarts;
