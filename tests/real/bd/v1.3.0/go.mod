module fleet.invalid/bd

go 1.26.5

require github.com/steveyegge/beads v1.3.0
