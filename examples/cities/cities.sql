-- Inhabitants of the municipality, rounded to thousands, from national statistics of 2021 to 2023.
CREATE TABLE city (name TEXT PRIMARY KEY COLLATE NOCASE, country TEXT NOT NULL, inhabitants INTEGER NOT NULL);
INSERT INTO city VALUES
    ('Barcelona', 'Spain', 1636000),
    ('Berlin', 'Germany', 3755000),
    ('Graz', 'Austria', 298000),
    ('Hamburg', 'Germany', 1892000),
    ('Lisbon', 'Portugal', 546000),
    ('Lyon', 'France', 522000),
    ('Madrid', 'Spain', 3281000),
    ('Marseille', 'France', 873000),
    ('Milan', 'Italy', 1354000),
    ('Munich', 'Germany', 1512000),
    ('Nantes', 'France', 323000),
    ('Nice', 'France', 348000),
    ('Paris', 'France', 2133000),
    ('Porto', 'Portugal', 232000),
    ('Rome', 'Italy', 2748000),
    ('Toulouse', 'France', 504000),
    ('Vienna', 'Austria', 1982000);
