-- workflows --
-- The columns are in the order of Workflow's fields. A condition and an order are added from the blocks below.
select w.id, w.name, w.repo, w.plan, w.task_prompt, w.made_at, w.made_by, w.caller, w.stopped_at, w.reason, w.cleaned_at
from workflows w

-- with_id --
where w.id = :id

-- task_prompt --
select task_prompt from workflows where id = :id

-- newest --
order by w.made_at desc, w.id limit :limit

-- insert_workflow --
insert into workflows (id, name, repo, plan, task_prompt, made_at, made_by, caller, stopped_at, reason, cleaned_at)
values (:id, :name, :repo, :plan, :task_prompt, :made_at, :made_by, :caller, :stopped_at, :reason, :cleaned_at)

-- insert_stage --
insert into stages (task, workflow, number, name, spec) values (:task_id, :workflow_id, :index, :name, :spec)

-- stop_workflow --
update workflows set stopped_at = :at, reason = :reason where id = :id and stopped_at is null

-- clean_workflow --
update workflows set cleaned_at = :at where id = :id and cleaned_at is null

-- stages --
-- The columns are in the order of StageOf's fields.
select s.task, s.workflow, s.number, s.name, s.spec from stages s

-- of_workflow --
where s.workflow = :workflow order by s.number

-- of_task --
where s.task = :task

-- results --
-- The columns are in the order of Result's fields.
select r.task, r.run, r.made_at, r.made_by, r.body from results r
where r.task in (select value from json_each(:tasks))

-- keep_result --
insert into results (task, run, made_at, made_by, body) values (:task_id, :run_id, :made_at, :made_by, :body)
on conflict (task) do update set run = excluded.run, made_at = excluded.made_at, made_by = excluded.made_by,
    body = excluded.body
