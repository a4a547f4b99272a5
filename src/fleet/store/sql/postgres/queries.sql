-- tasks --
-- The columns are in the order of Task's fields. Conditions and an order are added from filters.sql and orders.sql.
select
    t.id, t.title, t.description, t.design, t.acceptance, t.notes, t.spec_id, t.status, t.priority, t.type, t.assignee,
    t.owner, t.estimated_minutes, t.created_at, t.created_by, t.updated_at, t.started_at, t.closed_at, t.close_reason,
    t.closed_by_session, t.due_at, t.defer_until, t.external_ref, t.source_system, t.ephemeral, t.no_history, t.pinned,
    t.is_template, t.metadata, t.extra,
    (select string_agg(label, chr(31) order by label) from labels where task = t.id) as labels,
    t.is_blocked, t.cwd, t.coder, t.model, t.account, t.workspace, t.repo, t.remote, t.base, t.branch, t.mode, t.verify,
    t.rules, t.limits, t.requires, t.batch, t.workflow, t.stage, t.origin, t.made_by, t.path, t.finding, t.reason, t.claim_owner, t.epoch,
    t.claim_expires_at, t.run_id, t.cancel_requested_at, t.cancel_reason, t.handed_in_at, t.hand_in_reason, t.failures,
    t.continues, t.fresh_starts, t.losses, t.waits, t.disproofs, t.fakes
from tasks t
where true

-- index_ready --

-- index_requiring --

-- index_put_off --

-- index_claimable --

-- index_claimable_by_lane --

-- index_by_branch --

-- index_unfinished --

-- taken --
-- Rows that another claim has locked are skipped, not waited for.
for update of t skip locked

-- size --
select count(*) from tasks where strpos(id, '.') = 0 and starts_with(id, :prefix || '-')

-- lock_seat --
select pg_advisory_xact_lock(1718379877, hashtext(:coder || chr(31) || :account))

-- waiting_coders --
-- One step down the index per coder, however many tasks wait. Deferred tasks count too, because they will become
-- claimable.
with recursive waiting (coder) as (
    select min(coder) from tasks
    where status in ('open', 'deferred') and is_blocked = 0 and pinned = 0 and is_template = 0 and claim_owner = ''
        and assignee = '' and ephemeral = 0
    union all
    select (
        select min(coder) from tasks
        where status in ('open', 'deferred') and is_blocked = 0 and pinned = 0 and is_template = 0 and claim_owner = ''
            and assignee = '' and ephemeral = 0 and coder > waiting.coder)
    from waiting where coder is not null
)
select coder from waiting where coder is not null

-- refresh_blocked --
update tasks set is_blocked = 1 - is_blocked
where id in (select value from json_each(:ids)) and (is_blocked = 1) <> exists (
    select 1 from edges e left join tasks n on n.id = e.needs
    where e.task = tasks.id and (
        (e.type in ('blocks', 'conditional-blocks')
            and (starts_with(e.needs, 'external:') or n.status not in ('closed', 'pinned')))
        or (e.type = 'parent-child' and n.is_blocked = 1)
        or (e.type = 'waits-for'
            and exists (
                select 1 from edges c join tasks k on k.id = c.task
                where c.needs = e.needs and c.type = 'parent-child' and k.status not in ('closed', 'pinned'))
            and not (strpos(e.metadata, 'any-children') > 0 and exists (
                select 1 from edges c join tasks k on k.id = c.task
                where c.needs = e.needs and c.type = 'parent-child' and k.status in ('closed', 'pinned'))))
    )
)
returning id

-- reaches --
-- Returns a row if `start` leads to `goal` along dependencies that can keep work from starting.
with recursive reached (id) as (
    select cast(:start as text) collate "C"
    union
    select e.needs from reached r join edges e on e.task = r.id
    where e.type in ('blocks', 'conditional-blocks', 'parent-child')
)
select 1 from reached where id = :goal limit 1

-- next_child --
insert into child_counters (parent, last) values (:parent, greatest(:least, 1))
on conflict (parent) do update set last = greatest(child_counters.last + 1, :least)
returning last

-- highest_child --
select max(cast(substr(id, length(:parent) + 2) as bigint)) from tasks
where id >= :parent || '.' and id < :parent || '/' and substr(id, length(:parent) + 2) ~ '^[0-9]{1,18}$'

-- keep_child_number --
insert into child_counters (parent, last) values (:parent, :number)
on conflict (parent) do update set last = greatest(child_counters.last, :number)

-- renew --
-- All claims of a host at once, so that the number of queries does not grow with its agents.
update tasks t set claim_expires_at = :expires
from unnest(:ids::text[], :owners::text[], :epochs::bigint[]) as held (id, owner, epoch)
where t.id = held.id and t.claim_owner = held.owner and t.epoch = held.epoch
returning t.id
