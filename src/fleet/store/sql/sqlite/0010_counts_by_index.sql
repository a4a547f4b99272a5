-- `fleet tasks` counts in these indexes only and finds in them which ready tasks require a host.

drop index tasks_ready;
create index tasks_ready on tasks (priority, created_at, id, status, defer_until, type, ephemeral)
    where status in ('open', 'deferred') and is_blocked = 0 and pinned = 0 and is_template = 0 and claim_owner = '';
create index tasks_requiring on tasks (id)
    where status in ('open', 'deferred') and is_blocked = 0 and pinned = 0 and is_template = 0 and claim_owner = ''
        and requires <> '';
create index tasks_put_off on tasks (id, defer_until, status, is_blocked) where defer_until is not null;
create index tasks_blocked on tasks (status) where is_blocked = 1 and status not in ('closed', 'pinned');
