-- insert_question --
-- The same text, asked again while it is open, is the same question.
insert into questions (id, task, run, asked_at, text, source, answer, answered_at, answered_by)
select :id, :task_id, :run_id, :asked_at, :text, :source, cast(:answer as text), cast(:answered_at as bigint), :answered_by
where not exists (select 1 from questions where task = :task_id and text = :text and answered_at is null)
on conflict (id) do nothing

-- questions_chosen --
where (cast(:task as text) is null or q.task = :task) and (:unanswered = 0 or q.answered_at is null)
order by q.asked_at, q.id

-- add_to_totals --
insert into account_totals (coder, account, runs, tokens, cost_usd) values (:coder, :account, 1, :tokens, :cost_usd)
on conflict (coder, account) do update set
    runs = account_totals.runs + 1, tokens = least(account_totals.tokens + excluded.tokens, :most_tokens),
    cost_usd = least(account_totals.cost_usd + excluded.cost_usd, :most_usd)
