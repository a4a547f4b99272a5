-- The machine that a host's report came from. It distinguishes two machines that share a name and a path.

alter table hosts add column machine text not null default '';
