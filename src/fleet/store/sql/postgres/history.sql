-- spent_on_tasks --
-- The columns are in the order of Spent's fields.
select r.task, count(*),
    cast(coalesce(sum(r.input_tokens + r.output_tokens + r.cache_read_tokens + r.cache_write_tokens), 0) as bigint),
    sum(r.cost_usd),
    count(*) filter (where r.cost_usd is null
        and r.input_tokens + r.output_tokens + r.cache_read_tokens + r.cache_write_tokens > 0
        or r.cost_basis = 'unknown' and (r.cost_usd is not null
            or r.input_tokens + r.output_tokens + r.cache_read_tokens + r.cache_write_tokens > 0)),
    count(*) filter (where substr(r.cost_basis, 1, 9) = 'computed:'),
    cast(coalesce(sum(coalesce(r.ended_at, cast(:now as bigint)) - r.started_at), 0) / 1000000.0 as double precision)
from runs r where r.task in (select value from json_each(:ids)) group by r.task

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
