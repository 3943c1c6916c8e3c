using System;

namespace Samples
{
    public interface IRow<T>
    {
        T Read(int part);
    }

    public enum Color
    {
        Red,
        Green,
    }

    public record Pair(string Name, int Size);

    public abstract class Shelf<T> : IRow<T>
    {
        private int size;

        public Shelf(int size)
        {
            this.size = size;
        }

        public int Size { get; set; }

        public abstract T Read(int part);

        [Obsolete]
        private static int Hidden(
            int first,
            int second)
        {
            int Inner() => 1;
            return Inner();
        }

        public delegate void Changed(int part);
    }

    public struct Point
    {
        public int X;
    }
}
