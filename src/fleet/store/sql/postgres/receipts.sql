-- finding_counts --
select r.coder, r.model, r.finding, count(*), count(*) filter (where r.number = 1), coalesce(sum(r.cost_usd), 0.0),
    count(r.cost_usd) filter (where r.cost_basis <> 'unknown'),
    count(*) filter (where substr(r.cost_basis, 1, 8) = 'computed'),
    cast(coalesce(sum(r.ended_at - r.started_at), 0) / 1000000.0 as double precision),
    cast(coalesce(sum(r.input_tokens + r.output_tokens + r.cache_read_tokens + r.cache_write_tokens), 0) as bigint)
from runs r
where r.ended_at is not null and r.coder <> '' and r.ended_at >= :since
group by r.coder, r.model, r.finding
order by r.coder, r.model, r.finding

-- collisions --
-- The columns are in the order of Collision's fields.
select c.common, c.task, c.other, c.tip, c.other_tip, c.files, c.seen_at, c.told_at from collisions c
where cast(:common as text) is null or c.common = :common
order by c.common, c.seen_at, c.task, c.other
