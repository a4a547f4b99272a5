"""Beads as the queue: bd holds the tasks, and the home's SQLite file holds a copy with the claims.

Imports core and store. Only assembly and actions import it.

connection  the connection to the home's SQLite file if bd holds the tasks
fill        filling bd with exactly the tasks of the home's file, for a queue that moves into bd
folder      the `.beads` folder
format      tasks, edges and comments in bd's JSON
mirror      synchronization of the home's SQLite file with bd, in both directions
program     the program `bd`
pull        updating fleet's copy of the tasks from bd's export
push        the bd calls that apply fleet's writes
store       the store for tasks in beads
"""
