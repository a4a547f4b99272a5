-- written --
select kind, one, other from dirty

-- forget_written --
delete from dirty

-- remove_comment --
delete from comments where id = :id
