<?php

namespace Samples;

interface Row
{
    public function read(int $part): string;
}

trait Named
{
    public function name(): string
    {
        return 'x';
    }
}

abstract class Shelf implements Row
{
    use Named;

    public const LIMIT = 10;

    public function __construct(private int $size)
    {
    }

    abstract public function later(string $path): void;

    private static function hidden(
        int $first,
        int $second
    ): int {
        $inner = function () {
            return 1;
        };
        return $inner();
    }
}

enum Color: string
{
    case Red = 'red';
}

function load(string $path, bool $flag = true): int
{
    return 1;
}
