package sample

import java.io.File

const val LIMIT = 10

interface Row<T> {
    fun read(part: Int): T
}

data class Pair(val name: String, val size: Int) : Comparable<Pair> {
    override fun compareTo(other: Pair): Int {
        return size - other.size
    }

    companion object {
        fun make(): Pair = Pair("x", 1)
    }
}

enum class Color { RED, GREEN }

object Single {
    fun load(path: String) {
        fun inner(): Int {
            return 1
        }
        inner()
    }
}

class Shelf {
    constructor(size: Int) {
        println(size)
    }

    private fun hidden() {}
}

fun String.shout(): String = uppercase()

typealias Reader = (Int) -> String
