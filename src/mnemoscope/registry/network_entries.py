"""The relational networks by name: they learn tasks that show all objects of a problem together.

The columns are described in `table.py`.
"""

from mnemoscope.registry.entry import Registry
from mnemoscope.registry.table import read_entries

NETWORKS = """
corelnet | compares all objects with each other; an MLP sees only their similarities
    Kerg 2022, 5.5 and C.1 | mnemoscope.networks.relational:MODELS[corelnet] | kerg2022 kerg2022thesis
corelnet-printed | CoRelNet with all pairs of objects, as printed; the published parameter counts have half of them
    Kerg 2022, 5.5 | mnemoscope.networks.relational:MODELS[corelnet-printed] | kerg2022 kerg2022thesis
corelnet-t | CoRelNet whose decoder is a learned query that attends to the rows of the relations
    Kerg 2022, 5.5 and C.1 | mnemoscope.networks.relational:MODELS[corelnet-t] | kerg2022 vaswani2017 kerg2022thesis
corelnet-recurrent | CoRelNet whose decoder is an LSTM that reads the rows of the relations
    Kerg 2022, 5.5 | mnemoscope.networks.relational:MODELS[corelnet-recurrent] | kerg2022 kerg2022thesis
corelnet-asymmetric | CoRelNet with two learned maps, so that a relation has a direction
    Kerg 2022, 5.6 and 7.2 | mnemoscope.networks.relational:MODELS[corelnet-asymmetric] | kerg2022 kerg2022thesis
corelnet-diff | CoRelNet with differences in place of similarities
    Kerg 2022, 7.2 | mnemoscope.networks.relational:MODELS[corelnet-diff] | kerg2022 kerg2022thesis
corelnet-mix | CoRelNet in which similarity and difference compete
    Kerg 2022, 7.2 | mnemoscope.networks.relational:MODELS[corelnet-mix] | kerg2022 kerg2022thesis
corelnet-random | CoRelNet with a random encoder that is not trained
    Kerg 2022, Fig 4 | mnemoscope.networks.relational:MODELS[corelnet-random] | kerg2022 kerg2022thesis
corelnet-sensory | CoRelNet whose decoder sees the objects too
    Kerg 2022, Fig 4 | mnemoscope.networks.relational:MODELS[corelnet-sensory] | kerg2022 kerg2022thesis
corelnet-l1 | CoRelNet with an L1 penalty on a linear map after the encoder
    Kerg 2022, 5.6 and C.5 | mnemoscope.networks.relational:MODELS[corelnet-l1] | kerg2022 kerg2022thesis
corelnet-nhid | CoRelNet widened to the number of parameters of ESBN
    Kerg 2022, C.7 | mnemoscope.networks.relational:MODELS[corelnet-nhid] | kerg2022 kerg2022thesis
corelnet-multi | CoRelNet with 64 learned relations in parallel, read pair by pair
    mnemoscope; after Kerg et al. 2022, pairs of Santoro et al. 2017
    mnemoscope.networks.relational:MODELS[corelnet-multi] | kerg2022 santoro2017 mnemoscope
corelnet-t-asymmetric | CoRelNet-T with two learned maps
    Kerg 2022, Fig 4 | mnemoscope.networks.relational:MODELS[corelnet-t-asymmetric]
    kerg2022 vaswani2017 kerg2022thesis
corelnet-t-random | CoRelNet-T with a random encoder
    Kerg 2022, Fig 4 | mnemoscope.networks.relational:MODELS[corelnet-t-random] | kerg2022 vaswani2017 kerg2022thesis
corelnet-t-sensory | CoRelNet-T whose decoder sees the objects too
    Kerg 2022, Fig 4 | mnemoscope.networks.relational:MODELS[corelnet-t-sensory] | kerg2022 vaswani2017 kerg2022thesis
esbn | emergent symbol binding: an LSTM that sees only the keys it wrote for the objects
    Webb et al. 2021 | mnemoscope.networks.relational:MODELS[esbn] | webb2021
esbn-asymmetric | ESBN with two learned maps
    Kerg 2022, 7.2 | mnemoscope.networks.relational:MODELS[esbn-asymmetric] | webb2021 kerg2022 kerg2022thesis
esbn-random | ESBN with a random encoder
    Kerg 2022, Fig 4 | mnemoscope.networks.relational:MODELS[esbn-random] | webb2021 kerg2022 kerg2022thesis
esbn-sensory | ESBN whose LSTM sees the objects too
    Kerg 2022, Fig 4 | mnemoscope.networks.relational:MODELS[esbn-sensory] | webb2021 kerg2022 kerg2022thesis
esbn-l1 | ESBN with an L1 penalty on a linear map after the encoder
    Kerg 2022, 5.6 and C.5 | mnemoscope.networks.relational:MODELS[esbn-l1] | webb2021 kerg2022 kerg2022thesis
predinet | heads that each select two objects and compute how they differ
    Shanahan et al. 2020; Webb et al. 2021 | mnemoscope.networks.relational:MODELS[predinet] | shanahan2020 webb2021
transformer | one layer of attention among the objects
    Vaswani et al. 2017; Webb et al. 2021 | mnemoscope.networks.relational:MODELS[transformer] | vaswani2017 webb2021
relation-network | sum over all pairs of objects of the output of a small network
    Santoro et al. 2017; Webb et al. 2021 | mnemoscope.networks.relational:MODELS[relation-network]
    santoro2017 webb2021
lstm | an LSTM that reads the objects one after the other
    Hochreiter & Schmidhuber 1997; Webb et al. 2021 | mnemoscope.networks.relational:MODELS[lstm]
    hochreiter1997 webb2021
ntm | a neural Turing machine that reads the objects one after the other
    Graves et al. 2014; Webb et al. 2021 | mnemoscope.networks.relational:MODELS[ntm] | graves2014 webb2021
ntm-extra-step | a neural Turing machine that answers from its controller after an extra step, as released
    Graves et al. 2014; Webb et al. 2021 | mnemoscope.networks.relational:MODELS[ntm-extra-step] | graves2014 webb2021
mnm | an LSTM whose memory is a small network that it trains
    Munkhdalai et al. 2019; Webb et al. 2021 | mnemoscope.networks.relational:MODELS[mnm] | munkhdalai2019 webb2021
abstractor | attention among the objects that moves symbols, which are independent of the objects
    Altabaa et al. 2024 | mnemoscope.networks.relational:MODELS[abstractor] | altabaa2024
"""

networks = Registry("relational network", read_entries(NETWORKS))
