package sample

import scala.util.Try

trait Row[T] {
  def read(part: Int): T
}

case class Pair(name: String, size: Int) extends Row[String] {
  override def read(part: Int): String = {
    def inner(): String = name
    inner()
  }

  private def hidden(): Unit = ()
}

object Pair {
  val Limit = 10

  def make(name: String)(size: Int): Pair =
    Pair(name, size)
}

abstract class Shelf[T](val size: Int) {
  def later(path: String): Unit
  type Item
}

type Reader = Int => String
