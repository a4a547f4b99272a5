module fleet.invalid/bd

go 1.26.2

require github.com/steveyegge/beads v1.1.2
