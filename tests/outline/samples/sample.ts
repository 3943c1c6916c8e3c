export interface Row<T> {
  name: string;
  read(part: number): Promise<T>;
}

export type Pair = [string, number];

export enum Color {
  Red,
  Green,
}

export abstract class Shelf<T> implements Row<T> {
  name = 'x';
  constructor(private readonly path: string) {}
  abstract read(part: number): Promise<T>;
  private hidden(): void {
    console.log(this.path);
  }
}

export const pick = <T>(rows: T[]): T => {
  return rows[0];
};

namespace Inner {
  export function helper(): void {}
}

export function overloaded(a: string): void;
export function overloaded(a: unknown): void {
  void a;
}
