-- Tasks, their claims, and the records about running them, as SQLite has them after its sixth step. Instants are
-- microseconds since 1970 in UTC. Empty text means not set. Text is compared byte by byte, as in SQLite.

create schema if not exists fleet;

-- Returns a list of texts as rows. SQLite's statements call it json_each.
create function each_of (list text[]) returns table (value text) language sql immutable parallel safe rows 20
    as 'select unnest(list)';

-- Returns a JSON list of texts as an array. Anything else becomes a list of one word that no host offers.
create function words_of (list text) returns text[] language plpgsql immutable as $$
begin
    if json_typeof(list::json) = 'array' then
        return array(
            select case json_typeof(word) when 'string' then word #>> '{}' else chr(1) end
            from json_array_elements(list::json) word);
    end if;
    return array[chr(1)];
exception when others then
    return array[chr(1)];
end $$;

create table tasks (
    id text collate "C" primary key,
    title text collate "C" not null,
    description text collate "C" not null,
    design text collate "C" not null,
    acceptance text collate "C" not null,
    notes text collate "C" not null,
    spec_id text collate "C" not null,
    status text collate "C" not null,
    priority bigint not null,
    type text collate "C" not null,
    assignee text collate "C" not null,
    owner text collate "C" not null,
    estimated_minutes bigint,
    created_at bigint not null,
    created_by text collate "C" not null,
    updated_at bigint not null,
    started_at bigint,
    closed_at bigint,
    close_reason text collate "C" not null,
    closed_by_session text collate "C" not null,
    due_at bigint,
    defer_until bigint,
    external_ref text collate "C" not null,
    source_system text collate "C" not null,
    ephemeral bigint not null,
    no_history bigint not null,
    pinned bigint not null,
    is_template bigint not null,
    metadata text collate "C" not null,
    extra text collate "C" not null,
    is_blocked bigint not null,
    cwd text collate "C" not null,
    coder text collate "C" not null,
    model text collate "C" not null,
    account text collate "C" not null,
    workspace text collate "C" not null,
    repo text collate "C" not null,
    base text collate "C" not null,
    branch text collate "C" not null,
    mode text collate "C" not null,
    verify text collate "C" not null,
    limits text collate "C" not null,
    requires text collate "C" not null,
    batch text collate "C" not null,
    workflow text collate "C" not null,
    stage text collate "C" not null,
    origin text collate "C" not null,
    made_by text collate "C" not null,
    path text collate "C" not null,
    finding text collate "C" not null,
    reason text collate "C" not null,
    claim_owner text collate "C" not null,
    epoch bigint not null,
    claim_expires_at bigint,
    run_id text collate "C" not null,
    cancel_requested_at bigint,
    cancel_reason text collate "C" not null,
    handed_in_at bigint,
    hand_in_reason text collate "C" not null,
    failures bigint not null,
    continues bigint not null,
    restarts bigint not null,
    rules text collate "C" not null,
    remote text collate "C" not null,
    check ((status = 'closed') = (closed_at is not null)),
    check (priority between 0 and 4)
);
create index tasks_ready on tasks (priority, created_at, id)
    where status in ('open', 'deferred') and is_blocked = 0 and pinned = 0 and is_template = 0 and claim_owner = '';
create index tasks_claimable on tasks (priority, created_at, id)
    where status in ('open', 'deferred') and is_blocked = 0 and pinned = 0 and is_template = 0 and claim_owner = ''
        and assignee = '' and ephemeral = 0;
create index tasks_unfinished on tasks (priority, created_at desc, id) where status <> 'closed';
create index tasks_claimed on tasks (claim_expires_at) where claim_expires_at is not null;
create index tasks_by_status on tasks (status, updated_at);
create index tasks_by_assignee on tasks using hash (assignee) where assignee <> '';
create index tasks_by_batch on tasks using hash (batch) where batch <> '';
create index tasks_by_external_ref on tasks using hash (external_ref) where external_ref <> '';
create index tasks_by_branch on tasks using hash (branch) where branch <> '';
create index tasks_by_maker on tasks using hash (made_by) where made_by <> '';
create index tasks_claimable_by_lane on tasks (coder, account, mode, priority, created_at, id)
    where status in ('open', 'deferred') and is_blocked = 0 and pinned = 0 and is_template = 0 and claim_owner = ''
        and assignee = '' and ephemeral = 0;

-- `task` waits for `needs` or is its child. `needs` may name something outside this queue.
create table edges (
    task text collate "C" not null references tasks (id) on delete cascade,
    needs text collate "C" not null,
    type text collate "C" not null,
    created_at bigint not null,
    created_by text collate "C" not null,
    metadata text collate "C" not null,
    thread_id text collate "C" not null,
    primary key (task, needs)
);
create index edges_by_needs on edges (needs, type, task);

create table labels (
    task text collate "C" not null references tasks (id) on delete cascade,
    label text collate "C" not null,
    primary key (task, label)
);
create index labels_by_label on labels (label, task);

create table comments (
    id text collate "C" primary key,
    task text collate "C" not null references tasks (id) on delete cascade,
    author text collate "C" not null,
    text text collate "C" not null,
    created_at bigint not null
);
create index comments_by_task on comments (task, created_at, id);

-- The highest child number a task ever had, so that the id of a deleted child is not reused.
create table child_counters (
    parent text collate "C" primary key,
    last bigint not null
);

-- The queue's own settings (bd config): prefix, custom statuses and types.
create table config (
    key text collate "C" primary key,
    value text collate "C" not null
);

-- One attempt of one coder at one task.
create table runs (
    id text collate "C" primary key,
    task text collate "C" not null,
    number bigint not null,
    epoch bigint not null,
    owner text collate "C" not null,
    launcher text collate "C" not null default '',
    containment text collate "C" not null default '',
    coder text collate "C" not null default '',
    model text collate "C" not null default '',
    account text collate "C" not null default '',
    session text collate "C" not null default '',
    workspace text collate "C" not null default '',
    branch text collate "C" not null default '',
    base_commit text collate "C" not null default '',
    started_at bigint not null,
    first_event_at bigint,
    last_event_at bigint,
    result_at bigint,
    ended_at bigint,
    ending text collate "C" not null default '',
    reason text collate "C" not null default '',
    resume_at bigint,
    exit_status bigint,
    exit_signal bigint,
    finding text collate "C" not null default '',
    receipt text collate "C" not null default '',
    events bigint not null default 0,
    tool_calls bigint not null default 0,
    input_tokens bigint not null default 0,
    output_tokens bigint not null default 0,
    cache_read_tokens bigint not null default 0,
    cache_write_tokens bigint not null default 0,
    cost_usd double precision,
    context_peak bigint,
    context_window bigint,
    stdout_offset bigint not null default 0,
    stderr_offset bigint not null default 0,
    folded text collate "C" not null default '{}',
    home text collate "C" not null default '',
    session_name text collate "C" not null default '',
    screen text collate "C" not null default '',
    cpu_pct double precision,
    rss_kb bigint,
    diff_files bigint,
    diff_added bigint,
    diff_removed bigint,
    sampled_at bigint,
    leftover text collate "C" not null default '',
    verify text collate "C" not null default '',
    flags text collate "C" not null default '[]',
    spawn text collate "C" not null default '',
    unique (task, number)
);
create index runs_live on runs (owner) where ended_at is null;
create index runs_by_end on runs (ended_at);

-- A run's permissions are found by its token. Only the token's hash is stored.
create table callers (
    token_hash text collate "C" primary key,
    task text collate "C" not null,
    run text collate "C" not null,
    epoch bigint not null,
    depth bigint not null,
    budget_usd double precision,
    repos text collate "C" not null,
    issued_at bigint not null
);
create index callers_by_task on callers (task);

create table questions (
    id text collate "C" primary key,
    task text collate "C" not null,
    run text collate "C" not null default '',
    asked_at bigint not null,
    text text collate "C" not null,
    options text collate "C" not null default '[]',
    source text collate "C" not null default '',
    answer text collate "C",
    answered_at bigint,
    answered_by text collate "C" not null default ''
);
create index questions_open on questions (asked_at) where answered_at is null;
create index questions_by_task on questions (task, asked_at);

-- Messages to a working agent: queued, sent, then seen in its stream or carried into the next run.
create table messages (
    id text collate "C" primary key,
    task text collate "C" not null,
    run text collate "C" not null default '',
    author text collate "C" not null default '',
    text text collate "C" not null,
    queued_at bigint not null,
    sent_at bigint,
    delivered_at bigint,
    carried_at bigint,
    interrupts bigint not null default 0
);
create index messages_waiting on messages (task, queued_at) where delivered_at is null and carried_at is null;
create index messages_by_task on messages (task, queued_at, id);

-- A subscription or key of a coder. A limit parks the account, never a task.
create table accounts (
    coder text collate "C" not null,
    name text collate "C" not null,
    max_running bigint,
    parked_until bigint,
    parked_reason text collate "C" not null default '',
    used_pct double precision,
    used_at bigint,
    settings text collate "C" not null default '{}',
    strikes bigint not null default 0,
    primary key (coder, name)
);

-- Sums over ended runs, updated by the transaction that ends a run.
create table account_totals (
    coder text collate "C" not null,
    account text collate "C" not null,
    runs bigint not null,
    tokens bigint not null,
    cost_usd double precision not null,
    primary key (coder, account)
);

-- A row outlives its task and its worktree. Among workspaces that are not gone, each branch, path and port belongs to
-- one task.
create table workspaces (
    id bigint generated always as identity primary key,
    task text collate "C" not null,
    repo text collate "C" not null,
    common text collate "C" not null,
    path text collate "C" not null,
    branch text collate "C" not null,
    base text collate "C" not null,
    base_commit text collate "C" not null,
    made_branch bigint not null,
    made_at bigint not null,
    ready_at bigint,
    first_port bigint not null,
    port_count bigint not null,
    removing_at bigint,
    removed_at bigint,
    saved text collate "C" not null,
    notes text collate "C" not null
);
create unique index workspaces_standing_of_task on workspaces (task) where removed_at is null;
create unique index workspaces_standing_on_branch on workspaces (common, branch) where removed_at is null;
create unique index workspaces_standing_at_path on workspaces (path) where removed_at is null;
create unique index workspaces_standing_at_port on workspaces (first_port) where removed_at is null and first_port <> 0;
create index workspaces_by_task on workspaces (task, id);

-- Declarations of trust by a person or by a first use. All are kept, and the last counts.
create table trusted (
    id bigint generated always as identity primary key,
    kind text collate "C" not null,
    key text collate "C" not null,
    value text collate "C" not null,
    at bigint not null,
    by text collate "C" not null
);
create index trusted_by_key on trusted (kind, key, id);

-- The receipts of one owner form a chain, in the order of their ids. A receipt outlives its task.
create table receipts (
    id bigint generated always as identity primary key,
    run text collate "C" not null unique,
    task text collate "C" not null,
    owner text collate "C" not null,
    coder text collate "C" not null,
    model text collate "C" not null,
    finding text collate "C" not null,
    made_at bigint not null,
    previous text collate "C" not null,
    hash text collate "C" not null,
    body text collate "C" not null
);
create index receipts_by_task on receipts (task, id);
create index receipts_by_owner on receipts (owner, id);

-- Collisions as last seen. Each check replaces those of a repository.
create table collisions (
    common text collate "C" not null,
    task text collate "C" not null,
    other text collate "C" not null,
    tip text collate "C" not null,
    other_tip text collate "C" not null,
    files text collate "C" not null,
    seen_at bigint not null,
    told_at bigint,
    primary key (common, task, other)
);

create table workflows (
    id text collate "C" primary key,
    name text collate "C" not null,
    repo text collate "C" not null,
    plan text collate "C" not null,
    task_prompt text collate "C" not null,
    made_at bigint not null,
    made_by text collate "C" not null,
    caller text collate "C" not null,
    stopped_at bigint,
    reason text collate "C" not null,
    cleaned_at bigint
);
create index workflows_by_time on workflows (made_at, id);

-- Stages have their own table, so that starting one does not read the whole plan.
create table stages (
    task text collate "C" primary key,
    workflow text collate "C" not null,
    number bigint not null,
    name text collate "C" not null,
    spec text collate "C" not null
);
create unique index stages_of_workflow on stages (workflow, number);

create table results (
    task text collate "C" primary key,
    run text collate "C" not null,
    made_at bigint not null,
    made_by text collate "C" not null,
    body text collate "C" not null
);

-- Hosts that share this queue, as each last reported itself.
create table hosts (
    id text collate "C" primary key,
    name text collate "C" not null,
    labels text collate "C" not null,
    slots bigint not null,
    agents bigint not null,
    load double precision not null,
    version text collate "C" not null,
    address text collate "C" not null,
    seen_at bigint not null,
    drained_at bigint
);

-- The last events of each run, for when its host is gone.
create table tails (
    run text collate "C" primary key,
    kept_at bigint not null,
    text text collate "C" not null
);
