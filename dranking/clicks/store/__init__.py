"""Click stores: tables of counts by night, at any place, and what reads counts from them."""
