-- `fleet tasks` counts the tasks that were stopped in this index only.

create index tasks_stopped on tasks (status) where status = 'blocked' and (
    substr(reason, 1, 15) = 'stopped by hand' or substr(reason, 1, 22) in ('not begun, since stage', 'cancelled, since stage'));
