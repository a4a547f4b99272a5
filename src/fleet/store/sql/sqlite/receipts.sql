-- receipts --
-- The columns are in the order of Receipt's fields. A condition and an order are added from the blocks below.
select r.run, r.task, r.owner, r.coder, r.model, r.finding, r.made_at, r.previous, r.hash, r.body from receipts r

-- of_run --
where r.run = :run

-- of_task --
where r.task = :task order by r.id

-- last_of_owner --
where r.owner = :owner order by r.id desc limit 1

-- of_owner --
where r.owner = :owner order by r.id

-- insert_receipt --
insert into receipts (run, task, owner, coder, model, finding, made_at, previous, hash, body)
values (:run_id, :task_id, :owner, :coder, :model, :finding, :made_at, :previous, :hash, :body)

-- finding_counts --
select r.coder, r.model, r.finding, count(*), sum(r.number = 1), coalesce(sum(r.cost_usd), 0.0),
    count(r.cost_usd) filter (where r.cost_basis <> 'unknown'),
    count(*) filter (where substr(r.cost_basis, 1, 8) = 'computed'),
    coalesce(sum(r.ended_at - r.started_at), 0) / 1000000.0,
    coalesce(sum(r.input_tokens + r.output_tokens + r.cache_read_tokens + r.cache_write_tokens), 0)
from runs r
where r.ended_at is not null and r.coder <> '' and r.ended_at >= :since
group by r.coder, r.model, r.finding
order by r.coder, r.model, r.finding

-- collisions --
-- The columns are in the order of Collision's fields.
select c.common, c.task, c.other, c.tip, c.other_tip, c.files, c.seen_at, c.told_at from collisions c
where :common is null or c.common = :common
order by c.common, c.seen_at, c.task, c.other

-- forget_collisions --
delete from collisions where common = :common

-- insert_collision --
insert into collisions (common, task, other, tip, other_tip, files, seen_at, told_at)
values (:common, :task_id, :other_id, :tip, :other_tip, :files, :seen_at, :told_at)

-- tell_collision --
update collisions set told_at = :at where common = :common and task = :task and other = :other and told_at is null
