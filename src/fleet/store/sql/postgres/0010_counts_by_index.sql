-- `fleet tasks` counts in these indexes and finds in them which ready tasks require a host.

create index tasks_requiring on fleet.tasks (id)
    where status in ('open', 'deferred') and is_blocked = 0 and pinned = 0 and is_template = 0 and claim_owner = ''
        and requires <> '';
create index tasks_put_off on fleet.tasks (id, defer_until, status, is_blocked) where defer_until is not null;
create index tasks_blocked on fleet.tasks (status) where is_blocked = 1 and status not in ('closed', 'pinned');
