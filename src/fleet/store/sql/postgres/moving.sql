-- seal --
create trigger {table}_moved_{event} before {event} on {table} for each statement execute function moved()

-- before_sealing --
create or replace function moved() returns trigger language plpgsql as
    'begin raise exception ''the queue was moved; call fleet again''; end'

-- is_sealed --
select count(*) from pg_trigger where tgname = 'tasks_moved_insert' and tgrelid = 'fleet.tasks'::regclass

-- take_time --
-- A process that moves the queue holds its lock while it copies to another store, and sends nothing here meanwhile. If
-- its host is cut off, the server still notices by the connection.
set local idle_in_transaction_session_timeout = 0

-- set_aside --
alter schema fleet rename to fleet_before_{stamp}

-- after_copy --
select setval(pg_get_serial_sequence('fleet.{table}', 'id'), greatest(1, (select coalesce(max(id), 1) from {table})))

-- put --
insert into {table} ({columns}) overriding system value values ({values}) on conflict do nothing
