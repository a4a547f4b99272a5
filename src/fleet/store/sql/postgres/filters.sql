-- id_has --
strpos(substr(t.id, strpos(t.id, '-') + 1), :id_has) > 0
-- offers --
t.requires = '' or words_of(t.requires) <@ :offers
