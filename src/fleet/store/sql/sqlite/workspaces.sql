-- workspaces --
-- The columns are in the order of Workspace's fields. A condition and an order are added from the blocks below.
select
    w.task, w.repo, w.common, w.path, w.branch, w.base, w.base_commit, w.made_branch, w.made_at, w.ready_at, w.first_port,
    w.port_count, w.removing_at, w.removed_at, w.saved, w.notes
from workspaces w

-- newest_of_task --
where w.task = :task order by w.id desc limit 1

-- of_task --
where w.task = :task order by w.id

-- standing --
where w.removed_at is null order by w.id

-- standing_in --
where w.removed_at is null and w.common = :common order by w.id

-- all --
order by w.id

-- all_in --
where w.common = :common order by w.id

-- in_the_way --
-- Other tasks' worktrees on the same branch or path, each found by its own index.
where w.removed_at is null and w.task <> :task and w.id in (
    select id from workspaces where removed_at is null and common = :common and branch = :branch
    union all
    select id from workspaces where removed_at is null and path = :path)
order by w.id

-- leased_ports --
select first_port, port_count from workspaces where removed_at is null and first_port <> 0

-- insert_workspace --
insert into workspaces (
    task, repo, common, path, branch, base, base_commit, made_branch, made_at, ready_at, first_port, port_count,
    removing_at, removed_at, saved, notes
) values (
    :task_id, :repo, :common, :path, :branch, :base, :base_commit, :made_branch, :made_at, :ready_at, :first_port,
    :port_count, :removing_at, :removed_at, :saved, :notes
)

-- update_workspace --
update workspaces set
    base = :base, base_commit = :base_commit, made_branch = :made_branch, ready_at = :ready_at,
    removing_at = :removing_at, removed_at = :removed_at, saved = :saved, notes = :notes
where task = :task_id and removed_at is null

-- move_workspace --
-- A task's workspaces follow each other, so no two of them have the same lease time.
update workspaces set path = :path, repo = :repo, common = :common, notes = :notes
where task = :task_id and made_at = :made_at

-- move_homes_of_runs --
update runs set home = :after where home = :before and owner = :owner_before

-- move_owners_of_runs --
update runs set owner = :owner where owner = :owner_before

-- is_worked_on --
select 1 from runs where task = :task and ended_at is null
union all
select 1 from tasks where id = :task and claim_expires_at is not null
limit 1

-- trust --
insert into trusted (kind, key, value, at, by) values (:kind, :key, :value, :at, :by)

-- trusted --
select value from trusted where kind = :kind and key = :key order by id desc limit 1
