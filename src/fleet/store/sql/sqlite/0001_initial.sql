-- Tasks, their claims, and the records about running them. Instants are microseconds since 1970 in UTC. Empty text
-- means not set.

create table tasks (
    id text primary key not null,
    title text not null,
    description text not null,
    design text not null,
    acceptance text not null,
    notes text not null,
    spec_id text not null,
    status text not null,
    priority integer not null,
    type text not null,
    assignee text not null,
    owner text not null,
    estimated_minutes integer,
    created_at integer not null,
    created_by text not null,
    updated_at integer not null,
    started_at integer,
    closed_at integer,
    close_reason text not null,
    closed_by_session text not null,
    due_at integer,
    defer_until integer,
    external_ref text not null,
    source_system text not null,
    ephemeral integer not null,
    no_history integer not null,
    pinned integer not null,
    is_template integer not null,
    metadata text not null,
    extra text not null,
    is_blocked integer not null,
    cwd text not null,
    coder text not null,
    model text not null,
    account text not null,
    workspace text not null,
    repo text not null,
    base text not null,
    branch text not null,
    mode text not null,
    verify text not null,
    limits text not null,
    requires text not null,
    batch text not null,
    workflow text not null,
    stage text not null,
    origin text not null,
    made_by text not null,
    path text not null,
    finding text not null,
    reason text not null,
    claim_owner text not null,
    epoch integer not null,
    claim_expires_at integer,
    run_id text not null,
    cancel_requested_at integer,
    cancel_reason text not null,
    handed_in_at integer,
    hand_in_reason text not null,
    failures integer not null,
    continues integer not null,
    restarts integer not null,
    check ((status = 'closed') = (closed_at is not null)),
    check (priority between 0 and 4)
) strict;

-- Tasks that can start now, tasks that a supervisor may claim, and tasks that are not finished.
create index tasks_ready on tasks (priority, created_at, id)
    where status in ('open', 'deferred') and is_blocked = 0 and pinned = 0 and is_template = 0 and claim_owner = '';
create index tasks_claimable on tasks (priority, created_at, id)
    where status in ('open', 'deferred') and is_blocked = 0 and pinned = 0 and is_template = 0 and claim_owner = ''
        and assignee = '' and ephemeral = 0;
create index tasks_claimable_by_lane on tasks (coder, account, priority, created_at, id)
    where status in ('open', 'deferred') and is_blocked = 0 and pinned = 0 and is_template = 0 and claim_owner = ''
        and assignee = '' and ephemeral = 0;
create index tasks_unfinished on tasks (priority, created_at desc, id) where status <> 'closed';
create index tasks_claimed on tasks (claim_expires_at) where claim_expires_at is not null;
create index tasks_by_status on tasks (status, updated_at);
create index tasks_by_assignee on tasks (assignee) where assignee <> '';
create index tasks_by_batch on tasks (batch) where batch <> '';
create index tasks_by_external_ref on tasks (external_ref) where external_ref <> '';

-- A task's metadata as bd shows it: the user's own keys, and fleet's columns under `fleet.`.
create view shown_metadata (id, metadata) as
select id, json_patch(metadata, json_object(
    'fleet.cwd', nullif(cwd, ''), 'fleet.coder', nullif(coder, ''), 'fleet.model', nullif(model, ''),
    'fleet.account', nullif(account, ''), 'fleet.workspace', nullif(workspace, ''),
    'fleet.repo', nullif(repo, ''), 'fleet.base', nullif(base, ''), 'fleet.branch', nullif(branch, ''),
    'fleet.mode', nullif(mode, ''), 'fleet.verify', nullif(verify, ''), 'fleet.limits', nullif(limits, ''),
    'fleet.requires', nullif(requires, ''), 'fleet.batch', nullif(batch, ''),
    'fleet.workflow', nullif(workflow, ''), 'fleet.stage', nullif(stage, ''),
    'fleet.origin', nullif(origin, ''), 'fleet.made_by', nullif(made_by, ''), 'fleet.finding', nullif(finding, ''), 'fleet.reason', nullif(reason, '')))
from tasks;

-- `task` waits for `needs` or is its child. `needs` may name something outside this queue.
create table edges (
    task text not null references tasks (id) on delete cascade,
    needs text not null,
    type text not null,
    created_at integer not null,
    created_by text not null,
    metadata text not null,
    thread_id text not null,
    primary key (task, needs)
) strict, without rowid;
create index edges_by_needs on edges (needs, type, task);

create table labels (
    task text not null references tasks (id) on delete cascade,
    label text not null,
    primary key (task, label)
) strict, without rowid;
create index labels_by_label on labels (label, task);

create table comments (
    id text primary key not null,
    task text not null references tasks (id) on delete cascade,
    author text not null,
    text text not null,
    created_at integer not null
) strict;
create index comments_by_task on comments (task, created_at, id);

-- The highest child number a task ever had, so that the id of a deleted child is not reused.
create table child_counters (
    parent text primary key not null,
    last integer not null
) strict, without rowid;

-- The queue's own settings (bd config): prefix, custom statuses and types.
create table config (
    key text primary key not null,
    value text not null
) strict, without rowid;

-- One attempt of one coder at one task.
create table runs (
    id text primary key not null,
    task text not null,
    number integer not null,
    epoch integer not null,
    owner text not null,
    launcher text not null default '',
    containment text not null default '',
    coder text not null default '',
    model text not null default '',
    account text not null default '',
    session text not null default '',
    workspace text not null default '',
    branch text not null default '',
    base_commit text not null default '',
    started_at integer not null,
    first_event_at integer,
    last_event_at integer,
    result_at integer,
    ended_at integer,
    ending text not null default '',
    reason text not null default '',
    resume_at integer,
    exit_status integer,
    exit_signal integer,
    finding text not null default '',
    receipt text not null default '',
    events integer not null default 0,
    tool_calls integer not null default 0,
    input_tokens integer not null default 0,
    output_tokens integer not null default 0,
    cache_read_tokens integer not null default 0,
    cache_write_tokens integer not null default 0,
    cost_usd real,
    context_peak integer,
    context_window integer,
    stdout_offset integer not null default 0,
    stderr_offset integer not null default 0,
    folded text not null default '{}',
    unique (task, number)
) strict;
create index runs_live on runs (owner) where ended_at is null;
create index runs_by_end on runs (ended_at);

-- A run's permissions are found by its token. Only the token's hash is stored.
create table callers (
    token_hash text primary key not null,
    task text not null,
    run text not null,
    epoch integer not null,
    depth integer not null,
    budget_usd real,
    repos text not null,
    issued_at integer not null
) strict, without rowid;
create index callers_by_task on callers (task);

create table questions (
    id text primary key not null,
    task text not null,
    run text not null default '',
    asked_at integer not null,
    text text not null,
    options text not null default '[]',
    source text not null default '',
    answer text,
    answered_at integer,
    answered_by text not null default ''
) strict;
create index questions_open on questions (asked_at) where answered_at is null;
create index questions_by_task on questions (task, asked_at);

-- Messages to a working agent: queued, sent, then seen in its stream or carried into the next run.
create table messages (
    id text primary key not null,
    task text not null,
    run text not null default '',
    author text not null default '',
    text text not null,
    queued_at integer not null,
    sent_at integer,
    delivered_at integer,
    carried_at integer
) strict;
create index messages_waiting on messages (task, queued_at) where delivered_at is null and carried_at is null;

-- A subscription or key of a coder. A limit parks the account, never a task.
create table accounts (
    coder text not null,
    name text not null,
    max_running integer,
    parked_until integer,
    parked_reason text not null default '',
    used_pct real,
    used_at integer,
    settings text not null default '{}',
    primary key (coder, name)
) strict, without rowid;
