"""The words of generated aliases: plain and short, and polite in any combination."""

from typing import Final

ADJECTIVES: Final = tuple(
    """
    able agile amber ample apt bold brave bright brisk broad calm careful cheerful clean clear clever cool cosy
    crisp curious dapper deep eager early easy even exact fair fast fine firm fond frank free fresh gentle glad
    golden grand green handy happy hardy honest humble jolly keen kind large lively loyal lucid lucky mellow merry
    mild modest neat nimble noble open patient plain polite proud prudent quick quiet rapid ready rich robust round
    sharp shiny silent simple smart smooth snug sober solid steady still stout strong sunny sure swift tidy tough
    trusty vivid warm wide wise witty young
    """.split()
)

NOUNS: Final = tuple(
    """
    acorn anchor apple arch arrow badger basin beacon birch bison bridge brook canal canyon cedar chart cliff cloud
    clover comet coral crane creek delta dune eagle ember falcon fern field finch fjord forest fox garden glade
    grove harbor harvest hawk hazel heron hill island jasper kettle lagoon lake lantern larch lark ledge lily linden
    lynx maple marsh meadow mesa mill moon moss oak ocean olive orchard otter owl pebble pine plain planet plum pond
    poplar prairie quarry raven reef ridge river robin rowan sable sail sparrow spring spruce star stone stork stream
    summit swan thistle tide timber trail tulip valley walnut wharf willow wren
    """.split()
)
