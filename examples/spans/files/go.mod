module example.org/spans

go 1.24
