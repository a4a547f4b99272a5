-- insert_task --
insert into tasks (
    id, title, description, design, acceptance, notes, spec_id, status, priority, type, assignee, owner,
    estimated_minutes, created_at, created_by, updated_at, started_at, closed_at, close_reason, closed_by_session,
    due_at, defer_until, external_ref, source_system, ephemeral, no_history, pinned, is_template, metadata, extra,
    is_blocked, cwd, coder, model, account, workspace, repo, remote, base, branch, mode, verify, rules, limits, requires,
    batch, workflow, stage, origin, made_by, path, finding, reason, claim_owner, epoch, claim_expires_at, run_id,
    cancel_requested_at, cancel_reason, handed_in_at, hand_in_reason, failures, continues, fresh_starts, losses,
    waits, disproofs, fakes
) values (
    :id, :title, :description, :design, :acceptance, :notes, :spec_id, :status, :priority, :type, :assignee, :owner,
    :estimated_minutes, :created_at, :created_by, :updated_at, :started_at, :closed_at, :close_reason, :closed_by_session,
    :due_at, :defer_until, :external_ref, :source_system, :ephemeral, :no_history, :pinned, :is_template, :metadata, :extra,
    :is_blocked, :cwd, :coder, :model, :account, :workspace, :repo, :remote, :base, :branch, :mode, :verify, :rules,
    :limits, :requires, :batch, :workflow, :stage, :origin, :made_by, :path, :finding, :reason, :claim_owner, :epoch, :claim_expires_at, :run_id,
    :cancel_requested_at, :cancel_reason, :handed_in_at, :hand_in_reason, :failures, :continues, :fresh_starts, :losses,
    :waits, :disproofs, :fakes
)

-- update_task --
-- Only refresh_blocked writes is_blocked.
update tasks set
    title = :title, description = :description, design = :design, acceptance = :acceptance, notes = :notes,
    spec_id = :spec_id, status = :status, priority = :priority, type = :type, assignee = :assignee, owner = :owner,
    estimated_minutes = :estimated_minutes, created_at = :created_at, created_by = :created_by,
    updated_at = :updated_at, started_at = :started_at, closed_at = :closed_at, close_reason = :close_reason,
    closed_by_session = :closed_by_session, due_at = :due_at, defer_until = :defer_until,
    external_ref = :external_ref, source_system = :source_system, ephemeral = :ephemeral, no_history = :no_history,
    pinned = :pinned, is_template = :is_template, metadata = :metadata, extra = :extra, cwd = :cwd, coder = :coder,
    model = :model, account = :account, workspace = :workspace, repo = :repo, remote = :remote, base = :base,
    branch = :branch, mode = :mode, verify = :verify, rules = :rules, limits = :limits, requires = :requires,
    batch = :batch, workflow = :workflow,
    stage = :stage, origin = :origin, made_by = :made_by, path = :path, finding = :finding, reason = :reason,
    claim_owner = :claim_owner, epoch = :epoch, claim_expires_at = :claim_expires_at, run_id = :run_id,
    cancel_requested_at = :cancel_requested_at, cancel_reason = :cancel_reason, handed_in_at = :handed_in_at,
    hand_in_reason = :hand_in_reason, failures = :failures, continues = :continues,
    fresh_starts = :fresh_starts, losses = :losses, waits = :waits, disproofs = :disproofs, fakes = :fakes
where id = :id

-- tasks --
-- The columns are in the order of Task's fields. Conditions and an order are added from filters.sql and orders.sql.
select
    t.id, t.title, t.description, t.design, t.acceptance, t.notes, t.spec_id, t.status, t.priority, t.type, t.assignee,
    t.owner, t.estimated_minutes, t.created_at, t.created_by, t.updated_at, t.started_at, t.closed_at, t.close_reason,
    t.closed_by_session, t.due_at, t.defer_until, t.external_ref, t.source_system, t.ephemeral, t.no_history, t.pinned,
    t.is_template, t.metadata, t.extra,
    (select group_concat(label, char(31)) from (select label from labels where task = t.id order by label)) as labels,
    t.is_blocked, t.cwd, t.coder, t.model, t.account, t.workspace, t.repo, t.remote, t.base, t.branch, t.mode, t.verify,
    t.rules, t.limits, t.requires, t.batch, t.workflow, t.stage, t.origin, t.made_by, t.path, t.finding, t.reason, t.claim_owner, t.epoch,
    t.claim_expires_at, t.run_id, t.cancel_requested_at, t.cancel_reason, t.handed_in_at, t.hand_in_reason, t.failures,
    t.continues, t.fresh_starts, t.losses, t.waits, t.disproofs, t.fakes
from tasks t /* index */
where true

-- task_ids --
select t.id, t.priority, t.created_at from tasks t /* index */ where true

-- count --
select '', count(*) from tasks t /* index */ where true

-- count_by_status --
select t.status, count(*) from tasks t /* index */ where true

-- count_by_priority --
select t.priority, count(*) from tasks t /* index */ where true

-- count_by_type --
select t.type, count(*) from tasks t /* index */ where true

-- count_by_assignee --
select t.assignee, count(*) from tasks t /* index */ where true

-- count_by_label --
select l.label, count(*) from tasks t join labels l on l.task = t.id where true

-- no_index --

-- index_ready --
indexed by tasks_ready

-- index_requiring --
indexed by tasks_requiring

-- index_put_off --
indexed by tasks_put_off

-- index_claimable --
indexed by tasks_claimable

-- index_claimable_by_lane --
indexed by tasks_claimable_by_lane

-- index_by_branch --
indexed by tasks_by_branch

-- index_unfinished --
indexed by tasks_unfinished

-- taken --

-- grouped --
group by 1

-- limited --
limit :limit

-- status_of --
select status from tasks where id = :id

-- size --
select count(*) from tasks where instr(id, '.') = 0 and id glob :prefix || '-*'

-- delete_task --
delete from tasks where id = :id

-- delete_edges_to --
delete from edges where needs = :id

-- clear_labels --
delete from labels where task = :task

-- insert_label --
insert into labels (task, label) values (:task, :label)

-- all_labels --
select label, count(*) from labels group by label order by label

-- waiting_coders --
-- One step down the index per coder, however many tasks wait. Deferred tasks count too, because they will become
-- claimable.
with recursive waiting (coder) as (
    select min(coder) from tasks indexed by tasks_claimable_by_lane
    where status in ('open', 'deferred') and is_blocked = 0 and pinned = 0 and is_template = 0 and claim_owner = ''
        and assignee = '' and ephemeral = 0
    union all
    select (
        select min(coder) from tasks indexed by tasks_claimable_by_lane
        where status in ('open', 'deferred') and is_blocked = 0 and pinned = 0 and is_template = 0 and claim_owner = ''
            and assignee = '' and ephemeral = 0 and coder > waiting.coder)
    from waiting where coder is not null
)
select coder from waiting where coder is not null

-- claim --
update tasks set
    claim_owner = :owner, assignee = :owner, epoch = epoch + 1, claim_expires_at = :expires, status = 'in_progress',
    started_at = coalesce(started_at, :now), updated_at = :now, defer_until = null, cancel_requested_at = null,
    cancel_reason = '', handed_in_at = null, hand_in_reason = '', run_id = ''
where id in (select value from json_each(:ids))

-- at_work --
-- The agents of an account on all hosts: live runs, and claims that may become runs.
select count(*) from tasks t left join runs r on r.id = t.run_id
where t.claim_expires_at is not null and (
    (r.coder = :coder and r.account = :account)
    or (t.run_id = '' and t.coder in ('', :coder) and t.account in ('', :account)))

-- renew --
update tasks set claim_expires_at = :expires
where id = :id and claim_owner = :owner and epoch = :epoch

-- expired --
select id from tasks where claim_expires_at < :now order by claim_expires_at

-- children_of --
select task from edges where needs in (select value from json_each(:ids)) and type = 'parent-child'

-- watchers_of --
-- The tasks whose blocked state can change when a task is resolved, reopened, moved or removed.
select task from edges where needs = :id and type in ('blocks', 'conditional-blocks')
union
select w.task from edges p join edges w on w.needs = p.needs and w.type = 'waits-for'
where p.task = :id and p.type = 'parent-child'

-- waiters_on --
select task from edges where needs = :id and type = 'waits-for'

-- refresh_blocked --
update tasks set is_blocked = 1 - is_blocked
where id in (select value from json_each(:ids)) and is_blocked <> exists (
    select 1 from edges e left join tasks n on n.id = e.needs
    where e.task = tasks.id and (
        (e.type in ('blocks', 'conditional-blocks')
            and (e.needs glob 'external:*' or n.status not in ('closed', 'pinned')))
        or (e.type = 'parent-child' and n.is_blocked)
        or (e.type = 'waits-for'
            and exists (
                select 1 from edges c join tasks k on k.id = c.task
                where c.needs = e.needs and c.type = 'parent-child' and k.status not in ('closed', 'pinned'))
            and not (instr(e.metadata, 'any-children') and exists (
                select 1 from edges c join tasks k on k.id = c.task
                where c.needs = e.needs and c.type = 'parent-child' and k.status in ('closed', 'pinned'))))
    )
)
returning id

-- reaches --
-- Returns a row if `start` leads to `goal` along dependencies that can keep work from starting.
with recursive reached (id) as (
    select :start
    union
    select e.needs from reached r join edges e on e.task = r.id
    where e.type in ('blocks', 'conditional-blocks', 'parent-child')
)
select 1 from reached where id = :goal limit 1

-- ancestors --
with recursive up (id, depth) as (
    select needs, 1 from edges where task = :id and type = 'parent-child'
    union
    select e.needs, u.depth + 1 from up u join edges e on e.task = u.id and e.type = 'parent-child'
    where u.depth < 100
)
select id from up order by depth

-- insert_edge --
insert into edges (task, needs, type, created_at, created_by, metadata, thread_id)
values (:task, :needs, :type, :created_at, :created_by, :metadata, :thread_id)

-- delete_edge --
delete from edges where task = :task and needs = :needs

-- edge --
select task, needs, type, created_at, created_by, metadata, thread_id from edges where task = :task and needs = :needs

-- edges_from --
select task, needs, type, created_at, created_by, metadata, thread_id from edges
where task in (select value from json_each(:ids)) order by task, needs

-- edges_to --
select task, needs, type, created_at, created_by, metadata, thread_id from edges
where needs in (select value from json_each(:ids)) order by needs, task

-- edges_all --
select task, needs, type, created_at, created_by, metadata, thread_id from edges order by task, needs

-- tallies --
select
    j.value,
    (select count(*) from edges where task = j.value),
    (select count(*) from edges where needs = j.value),
    (select count(*) from edges where task = j.value and type in ('blocks', 'conditional-blocks', 'waits-for')),
    (select count(*) from edges where needs = j.value and type in ('blocks', 'conditional-blocks', 'waits-for')),
    (select count(*) from comments where task = j.value)
from json_each(:ids) j

-- insert_comment --
insert into comments (id, task, author, text, created_at) values (:id, :task_id, :author, :text, :created_at)

-- comments --
select id, task, author, text, created_at from comments
where task in (select value from json_each(:ids)) order by task, created_at, id

-- delete_comments --
delete from comments where task = :id

-- next_child --
insert into child_counters (parent, last) values (:parent, max(:least, 1))
on conflict (parent) do update set last = max(last + 1, :least)
returning last

-- highest_child --
select max(cast(substr(id, length(:parent) + 2) as integer)) from tasks
where id >= :parent || '.' and id < :parent || '/' and instr(substr(id, length(:parent) + 2), '.') = 0

-- config --
select key, value from config order by key

-- setting --
select value from config where key = :key

-- set_config --
insert into config (key, value) values (:key, :value) on conflict (key) do update set value = excluded.value

-- unset_config --
delete from config where key = :key

-- insert_caller --
insert into callers (token_hash, task, run, epoch, depth, budget_usd, repos, issued_at)
values (:token_hash, :task_id, :run_id, :epoch, :depth, :budget_usd, :repos, :issued_at)

-- caller --
select c.task, c.run, c.epoch, c.depth, c.budget_usd, c.repos
from callers c join tasks t on t.id = c.task
where c.token_hash = :token_hash and t.epoch = c.epoch and t.claim_owner <> ''

-- caller_in --
select c.task, c.run, c.epoch, c.depth, c.budget_usd, c.repos
from callers c join tasks t on t.id = c.task
where c.task = :task and c.run = :run and t.epoch = c.epoch and t.claim_owner <> ''

-- gave_out --
select 1 from callers where token_hash = :token_hash

-- move_callers --
update callers set epoch = :after where task = :id and epoch = :before

-- move_runs --
-- An adopted run continues under its new claim.
update runs set epoch = :after, owner = :owner where task = :id and epoch = :before and ended_at is null

-- keep_child_number --
insert into child_counters (parent, last) values (:parent, :number)
on conflict (parent) do update set last = max(last, :number)

-- delete_callers --
delete from callers where task = :id
