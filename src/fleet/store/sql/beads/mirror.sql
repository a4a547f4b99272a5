-- written --
select distinct kind, one, other from dirty order by kind, one, other

-- forget_written --
delete from dirty

-- remove_comment --
delete from comments where id = :id
