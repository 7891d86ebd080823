"""The account of an attack, from its logs alone. Imports the standard library and nothing else, least of all what it judges.

The logs are of those outside: the upstream's script, the clients, the receivers. Of what the fleet says about itself one thing is believed:
which deliveries to a receiver that cannot be asked it lists as unknown. Those may have arrived or not; a second arrival counts all the same.
"""
