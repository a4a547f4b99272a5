-- priority --
order by t.priority, t.created_at desc, t.id
-- priority_reversed --
order by t.priority desc, t.created_at, t.id desc
-- oldest --
order by t.created_at, t.id
-- oldest_reversed --
order by t.created_at desc, t.id desc
-- urgent --
order by t.priority, t.created_at, t.id
-- urgent_reversed --
order by t.priority desc, t.created_at desc, t.id desc
-- created --
order by t.created_at desc, t.id
-- created_reversed --
order by t.created_at, t.id desc
-- updated --
order by t.updated_at desc, t.id
-- updated_reversed --
order by t.updated_at, t.id desc
-- closed --
order by t.closed_at desc, t.id
-- closed_reversed --
order by t.closed_at, t.id desc
-- status --
order by t.status, t.id
-- status_reversed --
order by t.status desc, t.id desc
-- id --
order by t.id
-- id_reversed --
order by t.id desc
-- title --
order by t.title collate nocase, t.id
-- title_reversed --
order by t.title collate nocase desc, t.id desc
-- type --
order by t.type, t.id
-- type_reversed --
order by t.type desc, t.id desc
-- assignee --
order by t.assignee, t.id
-- assignee_reversed --
order by t.assignee desc, t.id desc
-- hybrid --
-- Tasks younger than two days by urgency, then the rest by age.
order by t.created_at < :now - 172800000000, case when t.created_at < :now - 172800000000 then 0 else t.priority end, t.created_at, t.id
-- hybrid_reversed --
order by t.created_at >= :now - 172800000000, case when t.created_at < :now - 172800000000 then 0 else -t.priority end, t.created_at desc,
    t.id desc
