-- runs --
-- The columns are in the order of Run's fields. A condition and an order are added from the blocks below.
select
    r.id, r.task, r.number, r.epoch, r.owner, r.launcher, r.containment, r.coder, r.model, r.account, r.session,
    r.workspace, r.home, r.branch, r.base_commit, r.started_at, r.first_event_at, r.last_event_at, r.result_at, r.ended_at,
    r.ending, r.reason, r.resume_at, r.exit_status, r.exit_signal, r.finding, r.receipt, r.events, r.tool_calls,
    r.input_tokens, r.output_tokens, r.cache_read_tokens, r.cache_write_tokens, r.cost_usd, r.cost_basis,
    r.context_peak, r.context_window, r.stdout_offset, r.stderr_offset, r.folded, r.session_name, r.screen, r.cpu_pct, r.rss_kb,
    r.diff_files, r.diff_added, r.diff_removed, r.sampled_at, r.leftover, r.verify, r.flags, r.spawn
from runs r

-- with_id --
where r.id = :id

-- of_task --
where r.task = :task order by r.number

-- last_of_tasks --
where r.task in (select value from json_each(:ids))
    and r.number = (select max(newest.number) from runs newest where newest.task = r.task)

-- live --
where r.ended_at is null order by r.started_at, r.task, r.number

-- live_of_owner --
where r.ended_at is null and r.owner = :owner order by r.started_at, r.task, r.number

-- ended --
-- A page of the runs that ended before a moment, continuing after the previous page, along the index on the end.
where r.ended_at < :before and (r.ended_at, r.id) > (:after, :after_id) order by r.ended_at, r.id limit :limit

-- ended_last --
where r.ended_at > :after order by r.ended_at desc, r.id desc limit :limit

-- spent_on_tasks --
-- The columns are in the order of Spent's fields.
select r.task, count(*), coalesce(sum(r.input_tokens + r.output_tokens + r.cache_read_tokens + r.cache_write_tokens), 0),
    sum(r.cost_usd),
    count(*) filter (where r.cost_usd is null
        and r.input_tokens + r.output_tokens + r.cache_read_tokens + r.cache_write_tokens > 0
        or r.cost_basis = 'unknown' and (r.cost_usd is not null
            or r.input_tokens + r.output_tokens + r.cache_read_tokens + r.cache_write_tokens > 0)),
    count(*) filter (where substr(r.cost_basis, 1, 9) = 'computed:'),
    coalesce(sum(coalesce(r.ended_at, :now) - r.started_at), 0) / 1000000.0
from runs r where r.task in (select value from json_each(:ids)) group by r.task

-- name_in_task --
update tasks set run_id = :run where id = :task and claim_owner = :owner and epoch = :epoch

-- insert_run --
insert into runs (
    id, task, number, epoch, owner, launcher, containment, coder, model, account, session, workspace, home, branch,
    base_commit, started_at, first_event_at, last_event_at, result_at, ended_at, ending, reason, resume_at, exit_status,
    exit_signal, finding, receipt, events, tool_calls, input_tokens, output_tokens, cache_read_tokens,
    cache_write_tokens, cost_usd, cost_basis, context_peak, context_window, stdout_offset, stderr_offset, folded,
    session_name, screen, cpu_pct, rss_kb, diff_files, diff_added, diff_removed, sampled_at, leftover, verify, flags, spawn
) values (
    :id, :task_id, :number, :epoch, :owner, :launcher, :containment, :coder, :model, :account, :session, :workspace,
    :home, :branch, :base_commit, :started_at, :first_event_at, :last_event_at, :result_at, :ended_at, :ending, :reason,
    :resume_at, :exit_status, :exit_signal, :finding, :receipt, :events, :tool_calls, :input_tokens, :output_tokens,
    :cache_read_tokens, :cache_write_tokens, :cost_usd, :cost_basis, :context_peak, :context_window, :stdout_offset,
    :stderr_offset, :folded, :session_name, :screen, :cpu_pct, :rss_kb, :diff_files, :diff_added, :diff_removed, :sampled_at, :leftover,
    :verify, :flags, :spawn
)

-- fold_run --
-- All fields that change while a run lives, but not how it began and not how it ended.
update runs set
    launcher = :launcher, containment = :containment, coder = :coder, model = :model, account = :account,
    session = :session, workspace = :workspace, home = :home, branch = :branch, base_commit = :base_commit,
    first_event_at = :first_event_at, last_event_at = :last_event_at, result_at = :result_at, events = :events,
    tool_calls = :tool_calls, input_tokens = :input_tokens, output_tokens = :output_tokens,
    cache_read_tokens = :cache_read_tokens, cache_write_tokens = :cache_write_tokens, cost_usd = :cost_usd,
    cost_basis = :cost_basis, context_peak = :context_peak, context_window = :context_window, stdout_offset = :stdout_offset,
    stderr_offset = :stderr_offset, folded = :folded, session_name = :session_name, screen = :screen, cpu_pct = :cpu_pct,
    rss_kb = :rss_kb, diff_files = :diff_files, diff_added = :diff_added, diff_removed = :diff_removed,
    sampled_at = :sampled_at, leftover = :leftover, verify = :verify, flags = :flags, spawn = :spawn
where id = :id and task = :task and owner = :owner and epoch = :epoch and ended_at is null
    and exists (select 1 from tasks t where t.id = :task and t.claim_owner = :owner and t.epoch = :epoch)

-- end_run --
update runs set
    launcher = :launcher, containment = :containment, coder = :coder, model = :model, account = :account,
    session = :session, workspace = :workspace, home = :home, branch = :branch, base_commit = :base_commit,
    first_event_at = :first_event_at, last_event_at = :last_event_at, result_at = :result_at, events = :events,
    tool_calls = :tool_calls, input_tokens = :input_tokens, output_tokens = :output_tokens,
    cache_read_tokens = :cache_read_tokens, cache_write_tokens = :cache_write_tokens, cost_usd = :cost_usd,
    cost_basis = :cost_basis, context_peak = :context_peak, context_window = :context_window, stdout_offset = :stdout_offset,
    stderr_offset = :stderr_offset, folded = :folded, session_name = :session_name, screen = :screen, cpu_pct = :cpu_pct,
    rss_kb = :rss_kb, diff_files = :diff_files, diff_added = :diff_added, diff_removed = :diff_removed,
    sampled_at = :sampled_at, leftover = :leftover, verify = :verify, flags = :flags, spawn = :spawn,
    ended_at = :ended_at, ending = :ending, reason = :reason, resume_at = :resume_at, exit_status = :exit_status,
    exit_signal = :exit_signal, finding = :finding, receipt = :receipt
where id = :id and owner = :owner and epoch = :epoch and ended_at is null

-- insert_question --
-- The same text, asked again while it is open, is the same question.
insert into questions (id, task, run, asked_at, text, source, answer, answered_at, answered_by)
select :id, :task_id, :run_id, :asked_at, :text, :source, :answer, :answered_at, :answered_by
where not exists (select 1 from questions where task = :task_id and text = :text and answered_at is null)
on conflict (id) do nothing

-- answer_question --
update questions set answer = :answer, answered_at = :now, answered_by = :by where id = :id and answered_at is null

-- questions --
-- The columns are in the order of Question's fields.
select q.id, q.task, q.run, q.asked_at, q.text, q.source, q.answer, q.answered_at, q.answered_by from questions q

-- question_with_id --
where q.id = :id

-- questions_chosen --
where (:task is null or q.task = :task) and (not :unanswered or q.answered_at is null) order by q.asked_at, q.id

-- accounts --
-- The columns are in the order of Account's fields.
select coder, name, max_running, parked_until, parked_reason, strikes, used_at from accounts order by coder, name

-- park --
insert into accounts (coder, name, parked_until, parked_reason) values (:coder, :name, :until, :reason)
on conflict (coder, name) do update set parked_until = excluded.parked_until, parked_reason = excluded.parked_reason

-- unpark --
update accounts set parked_until = null, parked_reason = '' where coder = :coder and name = :name

-- note_strikes --
insert into accounts (coder, name, strikes) values (:coder, :name, :strikes)
on conflict (coder, name) do update set strikes = excluded.strikes

-- note_use --
insert into accounts (coder, name, used_at) values (:coder, :name, :used_at)
on conflict (coder, name) do update set used_at = excluded.used_at

-- add_to_totals --
insert into account_totals (coder, account, runs, tokens, cost_usd) values (:coder, :account, 1, :tokens, :cost_usd)
on conflict (coder, account) do update set
    runs = runs + 1, tokens = min(tokens + excluded.tokens, :most_tokens),
    cost_usd = min(cost_usd + excluded.cost_usd, :most_usd)

-- account_totals --
-- The columns are in the order of AccountTotal's fields.
select coder, account, runs, tokens, cost_usd from account_totals order by coder, account

-- quotas --
-- The columns are in the order of Quota's fields.
select coder, account, span, used_pct, resets_at, seen_at from quotas order by coder, account, span

-- keep_quota --
insert into quotas (coder, account, span, used_pct, resets_at, seen_at)
values (:coder, :account, :span, :used_pct, :resets_at, :seen_at)
on conflict (coder, account, span) do update set
    used_pct = excluded.used_pct, resets_at = excluded.resets_at, seen_at = excluded.seen_at

-- insert_message --
insert into messages (id, task, run, author, text, interrupts, queued_at, sent_at, delivered_at, carried_at)
values (:id, :task_id, :run_id, :author, :text, :interrupts, :queued_at, :sent_at, :delivered_at, :carried_at)
on conflict (id) do nothing

-- messages --
-- The columns are in the order of Message's fields. Conditions are added from the blocks below.
select m.id, m.task, m.run, m.author, m.text, m.interrupts, m.queued_at, m.sent_at, m.delivered_at, m.carried_at
from messages m where true

-- message_with_id --
and m.id = :id

-- messages_of_task --
and m.task = :task

-- messages_queued --
and m.delivered_at is null and m.carried_at is null and m.sent_at is null

-- messages_sent --
and m.delivered_at is null and m.carried_at is null and m.sent_at is not null

-- messages_delivered --
and m.delivered_at is not null

-- messages_carried --
and m.delivered_at is null and m.carried_at is not null

-- messages_in_order --
order by m.queued_at, m.id

-- move_message --
update messages set
    run = :run_id, sent_at = :sent_at, delivered_at = :delivered_at, carried_at = :carried_at
where id = :id
