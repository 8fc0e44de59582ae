"""The relational networks by name: what learns the tasks that show all objects of a problem at once."""

from mnemoscope.registry.entry import Entry, Registry


def _entry(name: str, summary: str, source: str, *cites: str) -> Entry:
    return Entry(name, summary, source, f"mnemoscope.relational.named:MODELS[{name}]", cites=cites)


networks = Registry("relational network")
networks.add(
    _entry(
        "corelnet",
        "objects are compared with each other, and an MLP sees nothing but how alike they are",
        "Kerg, 5.5 and C.1",
        "kerg2022",
    ),
    _entry(
        "corelnet-printed",
        "CoRelNet with all pairs of objects, as printed; the published numbers of parameters count half of them",
        "Kerg, 5.5",
        "kerg2022",
    ),
    _entry(
        "corelnet-t",
        "CoRelNet whose decoder is a learned query that attends to the rows of the relations",
        "Kerg, 5.5 and C.1",
        "kerg2022",
        "vaswani2017",
    ),
    _entry(
        "corelnet-recurrent",
        "CoRelNet whose decoder is an LSTM that reads the rows of the relations",
        "Kerg, 5.5",
        "kerg2022",
    ),
    _entry(
        "corelnet-asymmetric",
        "CoRelNet with two learned maps, so that a relation has a direction",
        "Kerg, 5.6 and 7.2",
        "kerg2022",
    ),
    _entry(
        "corelnet-diff",
        "CoRelNet with differences in place of similarities",
        "Kerg, 7.2",
        "kerg2022",
    ),
    _entry(
        "corelnet-mix",
        "CoRelNet in which similarity and difference compete",
        "Kerg, 7.2",
        "kerg2022",
    ),
    _entry(
        "corelnet-random",
        "CoRelNet with a random encoder that is not trained",
        "Kerg, Fig 4",
        "kerg2022",
    ),
    _entry(
        "corelnet-sensory",
        "CoRelNet whose decoder sees the objects too",
        "Kerg, Fig 4",
        "kerg2022",
    ),
    _entry(
        "corelnet-l1",
        "CoRelNet with an L1 penalty on a linear map behind the encoder",
        "Kerg, 5.6 and C.5",
        "kerg2022",
    ),
    _entry(
        "corelnet-nhid",
        "CoRelNet as wide as to have the parameters of ESBN",
        "Kerg, C.7",
        "kerg2022",
    ),
    _entry(
        "corelnet-multi",
        "CoRelNet with eight learned relations at once",
        "mnemoscope; relations of Altabaa et al. 2024",
        "kerg2022",
        "altabaa2024",
    ),
    _entry(
        "corelnet-t-asymmetric",
        "CoRelNet-T with two learned maps",
        "Kerg, Fig 4",
        "kerg2022",
        "vaswani2017",
    ),
    _entry(
        "corelnet-t-random",
        "CoRelNet-T with a random encoder",
        "Kerg, Fig 4",
        "kerg2022",
        "vaswani2017",
    ),
    _entry(
        "corelnet-t-sensory",
        "CoRelNet-T whose decoder sees the objects too",
        "Kerg, Fig 4",
        "kerg2022",
        "vaswani2017",
    ),
    _entry(
        "esbn",
        "emergent symbol binding: an LSTM that sees nothing but the keys it wrote for what was seen",
        "Webb et al. 2021",
        "webb2021",
    ),
    _entry(
        "esbn-asymmetric",
        "ESBN with two learned maps",
        "Kerg, 7.2",
        "webb2021",
        "kerg2022",
    ),
    _entry(
        "esbn-random",
        "ESBN with a random encoder",
        "Kerg, Fig 4",
        "webb2021",
        "kerg2022",
    ),
    _entry(
        "esbn-sensory",
        "ESBN whose LSTM sees the objects too",
        "Kerg, Fig 4",
        "webb2021",
        "kerg2022",
    ),
    _entry(
        "esbn-l1",
        "ESBN with an L1 penalty on a linear map behind the encoder",
        "Kerg, 5.6 and C.5",
        "webb2021",
        "kerg2022",
    ),
    _entry(
        "predinet",
        "heads that each pick two objects and say how they differ",
        "Shanahan et al. 2020; Webb et al. 2021",
        "shanahan2020",
        "webb2021",
    ),
    _entry(
        "transformer",
        "one layer of attention among the objects",
        "Vaswani et al. 2017; Webb et al. 2021",
        "vaswani2017",
        "webb2021",
    ),
    _entry(
        "relation-network",
        "the sum over all pairs of objects of what a small network says of them",
        "Santoro et al. 2017; Webb et al. 2021",
        "santoro2017",
        "webb2021",
    ),
    _entry(
        "lstm",
        "an LSTM that reads the objects one after the other",
        "Hochreiter & Schmidhuber 1997; Webb et al. 2021",
        "hochreiter1997",
        "webb2021",
    ),
    _entry(
        "ntm",
        "a neural Turing machine that reads the objects one after the other",
        "Graves et al. 2014; Webb et al. 2021",
        "graves2014",
        "webb2021",
    ),
    _entry(
        "mnm",
        "an LSTM whose memory is a small network that it teaches",
        "Munkhdalai et al. 2019; Webb et al. 2021",
        "munkhdalai2019",
        "webb2021",
    ),
    _entry(
        "abstractor",
        "attention among the objects that moves symbols which know nothing of them",
        "Altabaa et al. 2024",
        "altabaa2024",
    ),
)
