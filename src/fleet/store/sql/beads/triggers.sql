-- dirty --
-- What a transaction wrote, recorded by triggers of this connection only and passed to bd before the commit. No column
-- is unique, because the statement that fires a trigger decides how conflicts inside are handled, and would fail.
create temp table dirty (
    kind text not null,
    one text not null,
    other text not null
)

-- task_added --
create temp trigger task_added after insert on main.tasks begin
    insert into dirty values ('task', new.id, '');
end

-- task_changed --
create temp trigger task_changed after update on main.tasks begin
    insert into dirty values ('task', new.id, '');
end

-- task_removed --
create temp trigger task_removed after delete on main.tasks begin
    insert into dirty values ('task', old.id, '');
end

-- label_added --
create temp trigger label_added after insert on main.labels begin
    insert into dirty values ('task', new.task, '');
end

-- label_removed --
create temp trigger label_removed after delete on main.labels begin
    insert into dirty values ('task', old.task, '');
end

-- edge_added --
create temp trigger edge_added after insert on main.edges begin
    insert into dirty values ('edge', new.task, new.needs);
end

-- edge_removed --
create temp trigger edge_removed after delete on main.edges begin
    insert into dirty values ('edge', old.task, old.needs);
end

-- comment_added --
create temp trigger comment_added after insert on main.comments begin
    insert into dirty values ('comment', new.task, new.id);
end

-- setting_added --
create temp trigger setting_added after insert on main.config begin
    insert into dirty values ('setting', new.key, '');
end

-- setting_changed --
create temp trigger setting_changed after update on main.config begin
    insert into dirty values ('setting', new.key, '');
end

-- setting_removed --
create temp trigger setting_removed after delete on main.config begin
    insert into dirty values ('setting', old.key, '');
end
