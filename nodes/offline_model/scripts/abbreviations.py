"""List what is written with a full stop that ends no sentence, in the languages that use one."""

_WITH_FULL_STOPS = """
mr mrs ms sr jr dr prof rev hon gen col capt lt sgt gov sen rep st mt ft vs no nos fig figs eq sec ch vol pp ed eds
approx est dept jan feb mar apr jun jul aug sep sept oct nov dec e.g i.e cf al viz resp incl
bzw ca evtl ggf inkl nr str sog vgl zzgl mio mrd tsd abs art bspw d.h z.b u.a o.ä s.o s.u hr fr frl jh jhd usf geb gest
lat engl franz dipl ing mag
mm mme mmes mlle mlles me av env p.ex sra srta sres ud uds p.ej núm pág págs aprox avda tel sig dott avv pag tab dra
exmo n.º bijv o.a d.w.z mw dhr t.ex bl.a m.m f.eks np tzn tj ul гг ул рис стр тыс руб им т.е т.д
"""
_MONTHS = """
januar februar märz april mai juni juli august september oktober november dezember jänner feber
ledna února března dubna května června července srpna září října listopadu prosince
januari februari maart mei augustus oktober tammikuuta helmikuuta maaliskuuta
"""
_BEFORE_ORDINALS = "am der dem den die das des vom zum zur beim im ins bis ab ihr ihre sein seine jeder"

ABBREVIATIONS = frozenset(_WITH_FULL_STOPS.split())
"""Without the last full stop, in lower case; single letters are abbreviations, too."""
MONTHS = frozenset(_MONTHS.split())
BEFORE_ORDINALS = frozenset(_BEFORE_ORDINALS.split())
"""After them, and before a month, a short number with a full stop is an ordinal."""
