-- closed --
order by t.closed_at desc nulls last, t.id
-- closed_reversed --
order by t.closed_at nulls first, t.id desc
-- title --
order by lower(t.title), t.id
-- title_reversed --
order by lower(t.title) desc, t.id desc
