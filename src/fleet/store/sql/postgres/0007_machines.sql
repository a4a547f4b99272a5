-- Which machine a host's word came from: two that share a name and a path are told apart by it.

alter table fleet.hosts add column machine text collate "C" not null default '';
