-- hosts --
-- The columns are in the order of Host's fields.
select h.id, h.name, h.labels, h.slots, h.agents, h.load, h.version, h.address, h.machine, h.seen_at, h.drained_at
from hosts h order by h.name, h.id

-- host --
select h.id, h.name, h.labels, h.slots, h.agents, h.load, h.version, h.address, h.machine, h.seen_at, h.drained_at
from hosts h where h.id = :host

-- keep_host --
-- `drained_at` does not change, because a person decides whether a host takes work.
insert into hosts (id, name, labels, slots, agents, load, version, address, machine, seen_at, drained_at)
values (:id, :name, :labels, :slots, :agents, :load, :version, :address, :machine, :seen_at, null)
on conflict (id) do update set name = excluded.name, labels = excluded.labels, slots = excluded.slots,
    agents = excluded.agents, load = excluded.load, version = excluded.version, address = excluded.address,
    machine = excluded.machine, seen_at = excluded.seen_at
returning drained_at

-- drain_host --
update hosts set drained_at = :at where id = :id

-- forget_host --
delete from hosts where id = :id

-- keep_tail --
insert into tails (run, kept_at, text) values (:run, :at, :text)
on conflict (run) do update set kept_at = excluded.kept_at, text = excluded.text

-- tail --
select text, kept_at from tails where run = :run

-- forget_tails --
delete from tails where kept_at < :before
