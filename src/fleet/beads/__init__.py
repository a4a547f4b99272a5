"""Beads as the queue: bd holds the tasks, and the home's SQLite file holds a copy with the claims.

Imports core, files and store. Used by assembly, actions and `fleet bd`.

connection  the home's SQLite file if bd holds the tasks
fill        fill bd with the tasks of the home, when a queue moves into bd
folder      create, lock and watch the `.beads` folder
format      convert tasks to and from bd's JSON
mirror      keep the home's SQLite file and bd equal
program     find and call the program `bd`
pull        update fleet's copy from bd's export
push        apply fleet's writes by calls of bd
store       the store if bd holds the tasks
"""
