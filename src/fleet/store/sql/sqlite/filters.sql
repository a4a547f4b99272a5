-- ids --
t.id in (select value from json_each(:ids))
-- id_has --
instr(substr(t.id, instr(t.id, '-') + 1), :id_has) > 0
-- id_after --
t.id > :id_after
-- statuses --
t.status in (select value from json_each(:statuses))
-- status --
t.status = :status
-- not_statuses --
t.status not in (select value from json_each(:not_statuses))
-- unfinished --
t.status <> 'closed'
-- stopped --
t.status = 'blocked' and (
    substr(t.reason, 1, 15) = 'stopped by hand' or substr(t.reason, 1, 22) in ('not begun, since stage', 'cancelled, since stage'))
-- priority --
t.priority = :priority
-- priority_min --
t.priority >= :priority_min
-- priority_max --
t.priority <= :priority_max
-- types --
t.type in (select value from json_each(:types))
-- not_types --
t.type not in (select value from json_each(:not_types))
-- assignee --
t.assignee = :assignee
-- unassigned --
t.assignee = ''
-- labels --
not exists (
    select 1 from json_each(:labels) w
    where not exists (select 1 from labels l where l.task = t.id and l.label = w.value))
-- any_label --
exists (select 1 from labels l where l.task = t.id and l.label in (select value from json_each(:any_label)))
-- not_labels --
not exists (select 1 from labels l where l.task = t.id and l.label in (select value from json_each(:not_labels)))
-- label_glob --
exists (select 1 from labels l where l.task = t.id and matches_label_glob(l.label, :label_glob))
-- label_regex --
exists (select 1 from labels l where l.task = t.id and matches_label_regex(l.label, :label_regex))
-- unlabelled --
not exists (select 1 from labels l where l.task = t.id)
-- text --
(instr(fold_text(t.title), fold_text(:text)) or instr(fold_text(t.description), fold_text(:text))
    or instr(fold_text(t.id), fold_text(:text)))
-- title_has --
instr(fold_text(t.title), fold_text(:title_has)) > 0
-- description_has --
instr(fold_text(t.description), fold_text(:description_has)) > 0
-- notes_has --
instr(fold_text(t.notes), fold_text(:notes_has)) > 0
-- undescribed --
t.description = ''
-- spec --
substr(t.spec_id, 1, length(:spec)) = :spec
-- external_ref --
t.external_ref = :external_ref and t.external_ref <> ''
-- parent --
t.id in (select task from edges where needs = :parent and type = 'parent-child')
-- under --
t.id in (
    with recursive down (id) as (
        select task from edges where needs = :under and type = 'parent-child'
        union
        select e.task from down d join edges e on e.needs = d.id and e.type = 'parent-child')
    select id from down)
-- orphan --
not exists (select 1 from edges e where e.task = t.id and e.type = 'parent-child')
-- created_after --
t.created_at > :created_after
-- created_before --
t.created_at < :created_before
-- updated_after --
t.updated_at > :updated_after
-- updated_before --
t.updated_at < :updated_before
-- closed_after --
t.closed_at > :closed_after
-- closed_before --
t.closed_at < :closed_before
-- deferred --
t.defer_until is not null
-- defer_after --
t.defer_until > :defer_after
-- defer_before --
t.defer_until < :defer_before
-- due_after --
t.due_at > :due_after
-- due_before --
t.due_at < :due_before
-- overdue --
coalesce(t.due_at < :now, false) and t.status <> 'closed'
-- pinned --
t.pinned = 1 or t.status = 'pinned'
-- template --
t.is_template = 1
-- ephemeral --
t.ephemeral = 1
-- metadata --
not exists (
    select 1 from json_each(:metadata) w
    where w.value is not (
        select case m.type when 'true' then 'true' when 'false' then 'false' else cast(m.atom as text) end
        from shown_metadata x, json_each(x.metadata) m
        where x.id = t.id and m.key = w.key))
-- metadata_key --
exists (
    select 1 from shown_metadata x, json_each(x.metadata) m
    where x.id = t.id and m.key = :metadata_key and m.type <> 'null')
-- ready --
t.status in ('open', 'deferred') and t.is_blocked = 0 and t.pinned = 0 and t.is_template = 0 and t.claim_owner = ''
    and (t.status = 'open' or t.defer_until <= :now)
-- due_to_start --
coalesce(t.defer_until <= :now, true) and not exists (
    select 1 from edges e join tasks p on p.id = e.needs
    where e.task = t.id and e.type = 'parent-child' and p.defer_until > :now)
-- work --
t.type not in ('merge-request', 'gate', 'molecule', 'message', 'agent', 'role', 'rig')
-- claimable --
t.status in ('open', 'deferred') and t.is_blocked = 0 and t.pinned = 0 and t.is_template = 0 and t.claim_owner = ''
    and (t.status = 'open' or t.defer_until <= :now)
    and t.assignee = '' and t.ephemeral = 0
-- blocked --
t.is_blocked = 1 and t.status not in ('closed', 'pinned')
-- coder --
t.coder = :coder
-- coders --
t.coder in (select value from json_each(:coders))
-- account --
t.account = :account
-- accounts --
t.account in (select value from json_each(:accounts))
-- mode --
t.mode = :mode
-- modes --
t.mode in (select value from json_each(:modes))
-- origins --
t.origin in (select value from json_each(:origins))
-- not_origins --
t.origin not in (select value from json_each(:not_origins))
-- offers --
t.requires = '' or not exists (
    -- No host offers text that is not a list of words. `iif` keeps such text from being parsed as a list.
    select 1 from json_each(iif(json_valid(t.requires), iif(json_type(t.requires) = 'array', t.requires, '[0]'), '[0]'))
    where value not in (select value from json_each(:offers)))
-- requires --
t.requires <> ''
-- batch --
t.batch = :batch and t.batch <> ''
-- made_by --
t.made_by = :made_by and t.made_by <> ''
-- repo --
t.repo = :repo
-- branch --
t.branch = :branch and t.branch <> ''
-- branches --
t.branch in (select value from json_each(:branches)) and t.branch <> ''
-- workspace --
t.workspace = :workspace
