-- page --
select {columns} from {table} {after} order by {keys} limit :limit

-- put --
insert into {table} ({columns}) values ({values}) on conflict do nothing

-- empty --
delete from {table}

-- count --
select count(*) from {table}

-- seal --
-- Processes that still have this queue open must not write to it, because their writes would be lost.
create trigger {table}_moved_{event} before {event} on {table}
begin select raise(abort, 'the queue was moved; call fleet again'); end

-- is_sealed --
select count(*) from sqlite_master where type = 'trigger' and name = 'tasks_moved_insert'

-- tables --
select name from sqlite_master where type = 'table' and name not like 'sqlite_%' order by rowid

-- columns --
select name, pk from pragma_table_info(:table) order by cid

-- trust_again --
insert into trusted (kind, key, value, at, by)
select kind, cast(:after as text) || substr(key, length(cast(:before as text)) + 1), value, at, by from trusted
where substr(key, 1, length(cast(:before as text)) + 1) = cast(:before as text) || '/' order by id

-- requirements --
select distinct requires from tasks where remote = '' and (repo <> '' or cwd <> '')

-- bind --
update tasks set requires = :after where requires = :before and remote = '' and (repo <> '' or cwd <> '')
