module github.com/collectivex/collectivex

go 1.26
