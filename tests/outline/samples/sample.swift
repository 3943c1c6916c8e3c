import Foundation

protocol Row {
    associatedtype Item
    func read(part: Int) -> Item
}

struct Pair: Equatable {
    let name: String

    init(name: String) {
        self.name = name
    }

    static func make() -> Pair {
        func inner() -> String {
            return "x"
        }
        return Pair(name: inner())
    }
}

enum Color: String {
    case red
    case green
}

final class Shelf<T> {
    private var size = 0

    deinit {
        print(size)
    }

    private func hidden() async throws -> Int {
        size
    }
}

extension Pair {
    var count: Int {
        name.count
    }
}

func load(_ path: String, flag: Bool = true) -> Int {
    return 1
}

typealias Reader = (Int) -> String
