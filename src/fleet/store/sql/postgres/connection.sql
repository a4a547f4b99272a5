-- opened --
-- Server and host agree on when a silent peer counts as gone, because a lost client must not hold the lock for long.
set search_path = fleet;
set statement_timeout = {patience};
set lock_timeout = {patience};
set idle_in_transaction_session_timeout = {patience};
set tcp_user_timeout = {patience};
set default_transaction_isolation = 'read committed';

-- facts --
select (extract(epoch from clock_timestamp()) * 1000000)::bigint,
    (extract(epoch from clock_timestamp() - pg_postmaster_start_time()) * 1000000)::bigint,
    coalesce((select obj_description(oid, 'pg_namespace') from pg_namespace where nspname = 'fleet'), '0'),
    pg_is_in_recovery();

-- together --
select {answers};

-- answer --
-- The rows of a statement, as one value.
(select coalesce(json_agg(row_to_json(q)), '[]') from ({statement}) q)

-- begin_alone --
begin;
select pg_advisory_xact_lock(439905248628);
select (extract(epoch from clock_timestamp()) * 1000000)::bigint;

-- begin_beside --
begin;
select pg_advisory_xact_lock_shared(439905248628);
select (extract(epoch from clock_timestamp()) * 1000000)::bigint;

-- begin_reading --
begin isolation level repeatable read read only;
select (extract(epoch from clock_timestamp()) * 1000000)::bigint;

-- told --
notify fleet;
commit;

-- set_version --
comment on schema fleet is '{number}';

-- server --
select current_setting('server_version'), current_setting('server_version_num')::bigint,
    (extract(epoch from clock_timestamp()) * 1000000)::bigint, current_setting('synchronous_commit'),
    current_setting('fsync'), pg_database_size(current_database()), current_database();
