-- The worktrees of tasks, declarations of trust, and observations of a running agent.

-- A row outlives its task and its worktree. Among workspaces that are not gone, each branch, path and port belongs to
-- one task.
create table workspaces (
    id integer primary key,
    task text not null,
    repo text not null,
    common text not null,
    path text not null,
    branch text not null,
    base text not null,
    base_commit text not null,
    made_branch integer not null,
    made_at integer not null,
    ready_at integer,
    first_port integer not null,
    port_count integer not null,
    removing_at integer,
    removed_at integer,
    saved text not null,
    notes text not null
) strict;
create unique index workspaces_standing_of_task on workspaces (task) where removed_at is null;
create unique index workspaces_standing_on_branch on workspaces (common, branch) where removed_at is null;
create unique index workspaces_standing_at_path on workspaces (path) where removed_at is null;
create unique index workspaces_standing_at_port on workspaces (first_port) where removed_at is null and first_port <> 0;
create index workspaces_by_task on workspaces (task, id);

-- Declarations of trust by a person or by a first use. All are kept, and the last counts.
create table trusted (
    id integer primary key,
    kind text not null,
    key text not null,
    value text not null,
    at integer not null,
    by text not null
) strict;
create index trusted_by_key on trusted (kind, key, id);

alter table runs add column session_name text not null default '';
alter table runs add column screen text not null default '';
alter table runs add column cpu_pct real;
alter table runs add column rss_kb integer;
alter table runs add column diff_files integer;
alter table runs add column diff_added integer;
alter table runs add column diff_removed integer;
alter table runs add column sampled_at integer;
alter table runs add column leftover text not null default '';
alter table runs add column verify text not null default '';
alter table runs add column flags text not null default '[]';

create index tasks_by_branch on tasks (repo, branch) where branch <> '';

-- Agents in terminals have their own slots, and a supervisor with such slots must not scan the tasks of other modes.
drop index tasks_claimable_by_lane;
create index tasks_claimable_by_lane on tasks (coder, account, mode, priority, created_at, id)
    where status in ('open', 'deferred') and is_blocked = 0 and pinned = 0 and is_template = 0 and claim_owner = ''
        and assignee = '' and ephemeral = 0;
